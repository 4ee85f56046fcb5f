# cv.glmnet on the training rows of every fold, from and to raw numbers in a folder.
suppressMessages({library(glmnet); library(survival)})
args <- commandArgs(trailingOnly = TRUE)
folder <- args[1]; family <- args[2]; n <- as.integer(args[3]); p <- as.integer(args[4]); folds <- as.integer(args[5])
numbers <- function(name, count) readBin(file.path(folder, name), "double", count)
X <- matrix(numbers("X.bin", n * p), n, p)
y <- numbers("y.bin", n * ifelse(family == "cox", 2, 1))
if (family == "cox") y <- Surv(y[1:n], y[(n + 1):(2 * n)])
tests <- matrix(numbers("folds.bin", n * folds), n, folds)
told <- NULL
said <- NULL
for (i in 1:folds) {
  train <- tests[, i] == 0
  outcome <- if (family == "cox") y[train] else y[train]
  if (family %in% c("binomial", "multinomial")) outcome <- factor(outcome)
  set.seed(i)
  used <- system.time(fit <- cv.glmnet(X[train, ], outcome, family = family, nfolds = 5))
  for (rule in c("lambda.min", "lambda.1se")) {
    kind <- if (family == "cox") "link" else "response"
    new <- predict(fit, X[!train, , drop = FALSE], s = rule, type = kind)
    beta <- coef(fit, s = rule)
    if (family == "multinomial") {
      used_columns <- which(Reduce(`|`, lapply(beta, function(b) as.numeric(b)[-1] != 0)))
    } else {
      values <- as.numeric(beta); if (family != "cox") values <- values[-1]
      used_columns <- which(values != 0)
    }
    told <- c(told, sprintf("%d\t%s\t%.6f\t%s", i, rule, used[["user.self"]] + used[["sys.self"]], paste(used_columns, collapse = ",")))
    said <- c(said, as.numeric(new))
  }
}
writeLines(told, file.path(folder, "told.txt"))
writeBin(said, file.path(folder, "said.bin"))
