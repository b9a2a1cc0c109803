"""Results for people: plain-text tables, pictures, reports and one-file HTML pages (extra ``report``)."""

from onefold.report.curves import FoldingDisplay, MembershipDisplay, PrivacyUtilityDisplay
from onefold.report.displays import (
    AccuracyDisplay,
    CalibrationDisplay,
    ClassCountsDisplay,
    ConfusionDisplay,
    Display,
    ObservedDisplay,
)
from onefold.report.document import Report, Section
from onefold.report.federations import Comparison, Entry, of_comparison, site_log_page
from onefold.report.html import format_table, report_page, write_page, write_report

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
    "Report",
    "Section",
    "format_table",
    "of_comparison",
    "report_page",
    "site_log_page",
    "write_page",
    "write_report",
]
