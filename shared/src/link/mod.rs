//! The network link's parts that host and agent share: keys, tickets, TLS and transport settings.
//!
//! Each side has one ed25519 key. They are pinned both ways as raw public keys (RFC 7250): no
//! certificates, no authority, no names, no expiry.

pub mod key;
pub mod role;
pub mod ticket;
pub mod tls;
pub mod transport;
