"""The layout and style of all HTML pages, and charts as SVG."""
