"""Results for people: plain-text tables, figures and one-file HTML pages (extra ``report``)."""

from onefold.report.comparison import Comparison, Entry
from onefold.report.figures import rules_figure, write_rules
from onefold.report.html import comparison_page, membership_page, write_page
from onefold.report.site_log import site_log_page
from onefold.report.tables import format_table

__all__ = [
    "Comparison",
    "Entry",
    "comparison_page",
    "format_table",
    "membership_page",
    "rules_figure",
    "site_log_page",
    "write_page",
    "write_rules",
]
