"""Pictures in scikit-learn's manner: compute once, draw later (extra ``report``)."""

from onefold.report.displays._display import Display, read_display
from onefold.report.displays.classification import AccuracyDisplay, CalibrationDisplay, ConfusionDisplay
from onefold.report.displays.folding import FoldingDisplay
from onefold.report.displays.numbers import ErrorsDisplay, ObservedDisplay
from onefold.report.displays.pictures import CurvesDisplay, FieldDisplay, ImagesDisplay, PointsDisplay
from onefold.report.displays.privacy import MembershipDisplay, PrivacyUtilityDisplay
from onefold.report.displays.sites import ClassCountsDisplay

__all__ = [
    "AccuracyDisplay",
    "CalibrationDisplay",
    "ClassCountsDisplay",
    "ConfusionDisplay",
    "CurvesDisplay",
    "Display",
    "ErrorsDisplay",
    "FieldDisplay",
    "FoldingDisplay",
    "ImagesDisplay",
    "MembershipDisplay",
    "ObservedDisplay",
    "PointsDisplay",
    "PrivacyUtilityDisplay",
    "read_display",
]
