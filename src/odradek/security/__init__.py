"""Who somebody is, and what that needs: so far the credentials that are kept of users."""
