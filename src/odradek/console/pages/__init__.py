"""The pages, one module for each subject. Each declares its endpoints."""
