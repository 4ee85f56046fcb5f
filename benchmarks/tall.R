# glmnet on tall data: Rscript tall.R FOLDER FAMILY, where the folder holds the arrays as plain binary files.
suppressMessages(library(glmnet))

asked <- commandArgs(trailingOnly = TRUE)
array <- function(name, size) readBin(file.path(asked[1], name), "double", size)
shape <- readBin(file.path(asked[1], "shape"), "integer", 2)
X <- matrix(array("X", prod(shape)), shape[1], shape[2])
y <- array("y", shape[1])
if (asked[2] == "cox") y <- cbind(time = y, status = array("event", shape[1]))
used <- system.time(model <- glmnet(X, y, family = asked[2], nlambda = 100))
cat(used[["user.self"]] + used[["sys.self"]], max(model$df), as.character(packageVersion("glmnet")))
