"""Results for people: plain-text tables, pictures, reports and one-file HTML pages (extra ``report``)."""

from onefold.report.comparison import Comparison, Entry
from onefold.report.curves import FoldingDisplay, MembershipDisplay, PrivacyUtilityDisplay, ReleaseDisplay
from onefold.report.displays import (
    AccuracyDisplay,
    CalibrationDisplay,
    ClassCountsDisplay,
    ConfusionDisplay,
    Display,
    ObservedDisplay,
)
from onefold.report.document import Report, Section
from onefold.report.html import comparison_page, membership_page, report_page, write_page, write_report
from onefold.report.site_log import site_log_page
from onefold.report.tables import format_table

__all__ = [
    "AccuracyDisplay",
    "CalibrationDisplay",
    "ClassCountsDisplay",
    "Comparison",
    "ConfusionDisplay",
    "Display",
    "Entry",
    "FoldingDisplay",
    "MembershipDisplay",
    "ObservedDisplay",
    "PrivacyUtilityDisplay",
    "ReleaseDisplay",
    "Report",
    "Section",
    "comparison_page",
    "format_table",
    "membership_page",
    "report_page",
    "site_log_page",
    "write_page",
    "write_report",
]
