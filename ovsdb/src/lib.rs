//! OVSDB (RFC 7047): rows, monitors, transactions, a sans-IO session.
