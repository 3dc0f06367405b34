//! Ends real sockets of this machine's kernel, in a network namespace of its own.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod common;

mod needs_root {
    use std::io::{ErrorKind, Read as _};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use kernel::sock_diag::{Error, TcpSockets as _, ThisMachine};

    use super::common;

    #[test]
    fn root_a_program_that_waits_for_its_peer_is_told_when_its_socket_is_ended() {
        if !common::enter_namespace() {
            eprintln!("skipped: a network namespace of its own needs root");
            return;
        }
        if !common::ip(&["link set lo up"]) {
            return;
        }
        let mut sockets = ThisMachine::open().unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let server = listener.local_addr().unwrap();
            let (mut ended, mut other) =
                (TcpStream::connect(server).unwrap(), TcpStream::connect(server).unwrap());
            let _accepted = [listener.accept().unwrap(), listener.accept().unwrap()];
            match sockets.destroy(ended.local_addr().unwrap(), server) {
                Err(Error::Unsupported) => {
                    eprintln!("skipped: {}", Error::Unsupported);
                    return;
                }
                result => assert_eq!(result, Ok(true)),
            }
            ended.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            assert_eq!(ended.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionAborted, "{address}");
            other.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            assert_eq!(other.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "{address}");
            assert_eq!(
                sockets.destroy("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()),
                Ok(false)
            );
        }
    }
}
