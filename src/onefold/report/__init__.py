"""Results for people: plain-text tables, pictures, reports and one-file HTML pages (extra ``report``)."""

from onefold.report.comparison import Comparison, Entry
from onefold.report.displays import (
    AccuracyDisplay,
    CalibrationDisplay,
    ClassCountsDisplay,
    ConfusionDisplay,
    CurvesDisplay,
    Display,
    ErrorsDisplay,
    FieldDisplay,
    FoldingDisplay,
    ImagesDisplay,
    MembershipDisplay,
    ObservedDisplay,
    PointsDisplay,
    PrivacyUtilityDisplay,
)
from onefold.report.document import Report, Section
from onefold.report.figures import rules_figure, write_rules
from onefold.report.html import comparison_page, membership_page, report_page, write_page, write_report
from onefold.report.site_log import site_log_page
from onefold.report.tables import format_table

__all__ = [
    "AccuracyDisplay",
    "CalibrationDisplay",
    "ClassCountsDisplay",
    "Comparison",
    "ConfusionDisplay",
    "CurvesDisplay",
    "Display",
    "Entry",
    "ErrorsDisplay",
    "FieldDisplay",
    "FoldingDisplay",
    "ImagesDisplay",
    "MembershipDisplay",
    "ObservedDisplay",
    "PointsDisplay",
    "PrivacyUtilityDisplay",
    "Report",
    "Section",
    "comparison_page",
    "format_table",
    "membership_page",
    "report_page",
    "rules_figure",
    "site_log_page",
    "write_page",
    "write_report",
    "write_rules",
]
