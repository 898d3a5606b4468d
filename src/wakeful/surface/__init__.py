"""What is made from the table of resources: HTTP paths, the OpenAPI document, commands, completion and pages of reference."""
