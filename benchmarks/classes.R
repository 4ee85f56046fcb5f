# glmnet on classes: Rscript classes.R FOLDER, which holds the arrays as plain binary files.
suppressMessages(library(glmnet))

folder <- commandArgs(trailingOnly = TRUE)[1]
shape <- readBin(file.path(folder, "shape"), "integer", 2)
if (file.exists(file.path(folder, "begins"))) {
  begins <- readBin(file.path(folder, "begins"), "integer", shape[2] + 1)
  stored <- begins[shape[2] + 1]
  rows <- readBin(file.path(folder, "rows"), "integer", stored)
  X <- Matrix::sparseMatrix(i = rows, p = begins, x = readBin(file.path(folder, "X"), "double", stored), dims = shape, index1 = FALSE)
} else {
  X <- matrix(readBin(file.path(folder, "X"), "double", prod(shape)), shape[1], shape[2])
}
y <- factor(readBin(file.path(folder, "y"), "double", shape[1]))
used <- system.time(model <- suppressWarnings(glmnet(X, y, family = "multinomial", nlambda = 100)))
cat(used[["user.self"]] + used[["sys.self"]], length(model$lambda), as.character(packageVersion("glmnet")))
