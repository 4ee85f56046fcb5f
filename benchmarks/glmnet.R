# R's glmnet as a contender: the counterpart of contenders.py, with the same conversation over standard input and output.
# Rscript glmnet.R FOLDER: the folder holds the arrays as plain binary files, since R does not read .npz.
suppressMessages(library(glmnet))

folder <- commandArgs(trailingOnly = TRUE)[1]
array <- function(name, type, size) readBin(file.path(folder, name), type, size)
shape <- array("shape", "integer", 2)
y <- array("y", "double", shape[1])
if (file.exists(file.path(folder, "indptr"))) {
  start <- array("indptr", "integer", shape[2] + 1)
  size <- start[shape[2] + 1]
  X <- sparseMatrix(i = array("indices", "integer", size), p = start, x = array("data", "double", size),
                    dims = shape, index1 = FALSE)
} else {
  X <- matrix(array("X", "double", prod(shape)), shape[1], shape[2])
}

say <- function(...) { cat("@@ ", sprintf(...), "\n", sep = ""); flush(stdout()) }
say('{"ready": true, "version": "%s", "language": "%s"}', packageVersion("glmnet"), R.version.string)
requests <- file("stdin", "r")
while (length(readLines(requests, n = 1)) > 0) {
  used <- system.time(model <- glmnet(X, y, family = "binomial", nlambda = 100))
  say('{"wall": %.6f, "cpu": %.6f, "answer": {"lambdas": [%s], "most_nonzero": %d}}', used[["elapsed"]],
      used[["user.self"]] + used[["sys.self"]], paste(sprintf("%.10g", model$lambda), collapse = ", "), max(model$df))
}
