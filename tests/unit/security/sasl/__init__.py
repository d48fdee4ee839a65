"""Tests of SASL."""
