"""Write the report of a check, one module for each format.

The formats are text for a terminal, JSON, JUnit, SARIF, Markdown and one HTML page. All of them show the same report.
Texts of the checked peer are hostile input.
"""
