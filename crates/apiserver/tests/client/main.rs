//! The client against an API server that is written from the API's documents, and that does whatever servers and networks do.
//!
//! | file | shows |
//! |---|---|
//! | `watching` | what is watched, and how: lists, pages, streams, bookmarks, selectors |
//! | `announcing` | what we say to the cluster, as Events |
//! | `lookup` | questions for single Nodes |
//! | `accounts` | who we are: certificates, tokens that rotate, the account of a Pod |
//! | `programs` | programs that make our token, also such that fail or hang |
//! | `faults` | each fault, one by one: what was told stays, and it goes on by itself |
//! | `waits` | how long the next try waits, once the server answers again |
//! | `time` | nothing goes back in time |
//! | `real` | the same against the real programs, where there are some |
//! | `listener` | the other end of the client: what it told, as a picture |

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, and says where")]

mod accounts;
mod announcing;
mod faults;
mod listener;
mod lookup;
mod programs;
mod real;
mod time;
mod waits;
mod watching;
