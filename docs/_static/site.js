// What the theme leaves out for keyboards and screen readers.
document.addEventListener("DOMContentLoaded", () => {
  for (const part of document.querySelectorAll(".table-wrapper, .highlight, .highlight pre")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0; // it can be scrolled by keys
  }
  for (const heading of document.querySelectorAll(".caption[role=heading]")) heading.ariaLevel = "2";
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a")) link.ariaLabel = link.textContent;
  for (const [part, name] of [[".sidebar-drawer", "all pages"], [".toc-drawer", "this page"]]) {
    const found = document.querySelector(part);
    if (found) found.ariaLabel = name;
  }
});
