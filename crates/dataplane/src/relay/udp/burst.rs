//! Datagrams that leave together: several to the same peer as one, which the kernel takes apart as late as it can.
//!
//! That is where most of UDP's cost is: the way through the network stack is gone once, not once for each.

use std::io;
use std::os::fd::BorrowedFd;

use kernel::socket::{self, Outgoing};

/// Longer ones might have to be cut into fragments on the way, which the kernel does not do for many at once.
const SEGMENT_MAX: usize = 1472;
/// So many at most, and ...
const COUNT_MAX: usize = 64;
/// ... so many bytes.
const BYTES_MAX: usize = 60_000;

/// How many of these datagrams, from the first on, can leave as one: all of a size, only the last may be shorter.
pub(super) fn count(sizes: impl IntoIterator<Item = usize>) -> usize {
    let mut sizes = sizes.into_iter();
    let Some(first) = sizes.next() else { return 0 };
    if first == 0 || first > SEGMENT_MAX {
        return 1;
    }
    let most = COUNT_MAX.min(BYTES_MAX / first);
    let mut count = 1;
    for size in sizes.take(most - 1) {
        if size == 0 || size > first {
            break;
        }
        count += 1;
        if size < first {
            break;
        }
    }
    count
}

/// Sends them. One that cannot be sent takes nothing from the others; what there is no room for is lost, as on any link that
/// is full. Returns the error of the first, if that is what failed.
pub(super) fn send_all(socket: BorrowedFd<'_>, all: &[Outgoing<'_>]) -> io::Result<()> {
    let mut rest = all;
    let mut first = Ok(());
    while let Some(next) = rest.first() {
        let done = match socket::send(socket, rest) {
            Ok(count) => count.max(1),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return first,
            // Taken together they may not fit the way: then one by one.
            Err(error) if next.segment > 0 && is_about_size(&error) => {
                send_apart(socket, next);
                1
            }
            Err(error) => {
                if rest.len() == all.len() {
                    first = Err(error);
                }
                1
            }
        };
        rest = &rest[done.min(rest.len())..];
    }
    first
}

fn is_about_size(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE | libc::EOPNOTSUPP))
}

fn send_apart(socket: BorrowedFd<'_>, together: &Outgoing<'_>) {
    for bytes in together.bytes.chunks(together.segment.into()) {
        let _lost = socket::send(socket, &[Outgoing { bytes, segment: 0, ..*together }]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_a_size_leave_together_and_a_shorter_one_ends_them() {
        for (sizes, expected) in [
            (&[64, 64, 64][..], 3),
            (&[64, 64, 10, 64], 3),
            (&[64, 65], 1),
            (&[64, 0, 64], 1),
            (&[0, 0], 1),
            (&[9000, 9000], 1),
            (&[], 0),
            (&[1400; 100], 42),
            (&[1; 100], 64),
        ] {
            assert_eq!(count(sizes.iter().copied()), expected, "{sizes:?}");
        }
    }
}
