//! Netlink: how a program and the kernel talk about networking.
//!
//! In: requests built by [`MessageWriter`]. Out: messages and attributes, read by [`Messages`] and
//! [`Attributes`], which trust no length that they find.
//!
//! A [`Client`] asks one subsystem and hears its answers; a [`Socket`] by itself is for those that only listen.
//!
//! One socket serves one subsystem for the life of the program. Closing one just after a deletion
//! would wait for the kernel's clean-up work.
//!
//! Absent on purpose: any async runtime. A socket gives its file descriptor to those who want to poll it.

mod attribute;
mod client;
mod error;
mod message;
mod socket;
mod sys;

pub use attribute::{Attribute, Attributes};
#[cfg(test)]
pub(crate) use client::family_id;
pub use client::{Client, Refused};
pub(crate) use error::no_subsystem;
pub use error::{Errno, Error, Refusal, Result};
pub use message::{Header, Message, MessageWriter, Messages, flags};
pub use socket::{Socket, Subsystem};
