"""The one look of all HTML pages, and charts as SVG."""
