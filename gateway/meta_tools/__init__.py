"""The gateway's own tools and their answers.

They are search_tools, get_tool_details, call_tool, read_result, list_servers and run_code.
`shown_tools` gives the list that a client sees.
"""
