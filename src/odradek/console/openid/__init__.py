"""Log-ins by OpenID Connect: the settings (`settings`) and the provider (`provider`)."""
