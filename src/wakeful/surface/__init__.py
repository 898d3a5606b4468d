"""Everything generated from the table of resources: HTTP paths, the OpenAPI document, commands, completion and reference pages."""
