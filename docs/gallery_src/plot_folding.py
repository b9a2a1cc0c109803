"""
Own class and nearest other class
=================================

A classifier folds a query towards each class. Rows that it has not seen are near their own class and far
from the others: where the two histograms overlap, it errs.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from onefold import AutoencoderClassifier
from onefold.report import CalibrationDisplay, ConfusionDisplay, FoldingDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
model = AutoencoderClassifier().fit(X_train, y_train)
display = FoldingDisplay.from_estimator(model, X_test, y_test)
figure, words = display.plot().figure_, display.describe()

# %%
# Which digit is taken for which.
display = ConfusionDisplay.from_estimator(model, X_test, y_test)
figure, words = display.plot().figure_, display.describe()

# %%
# Does the classifier know when it errs?
display = CalibrationDisplay.from_estimator(model, X_test, y_test)
figure, words = display.plot().figure_, display.describe()
