//! An endpoint that is gone, and the connection that somebody holds to it.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use playground::patient;

use super::{EXAMPLE, Kernel, place, start, status};

#[test]
fn root_ipvs_what_drains_is_told_found_again_after_a_restart_and_goes_when_its_time_is_over() {
    let Some(place) = place() else { return };
    // The pod is this host itself, at an address of its own.
    place.ip("address add 10.2.17.53/32 dev lo");
    let mut first = start(&place, "");
    let (_listener, _held) = place.inside(|| {
        let listener = TcpListener::bind("10.2.17.53:12345").unwrap();
        // One after the other, so one of two is the listener's.
        let limit = patient(Duration::from_secs(1));
        let connect = || TcpStream::connect_timeout(&"10.10.0.1:8410".parse().unwrap(), limit);
        let held = (0..4).find_map(|_| connect().ok()).expect("one of the endpoints answers");
        (listener, held)
    });
    place.write("web.yaml", &EXAMPLE.replace("{ addresses: [10.2.17.53] }, ", ""));
    place.until("the endpoint has weight 0", || {
        Kernel::read(&place).real("10.10.0.1:8410").contains(&("10.2.17.53:12345".to_owned(), 0))
    });
    place.until("it is told", || status(&place)["ipvs"]["draining"] == 1);
    place.portway("status").says(&["Draining:   1 real servers wait for connections to end"]);
    first.kill();
    let mut second = start(&place, "");
    assert_eq!(status(&place)["ipvs"]["draining"], 1, "the kernel is the memory");
    assert_eq!(second.terminate(), Some(0));
    let _third = start(&place, "--ipvs-drain-limit 1s");
    place.until("its time is over, though the connection is held", || {
        Kernel::read(&place).real("10.10.0.1:8410") == [("10.2.17.54:12345".to_owned(), 1)]
    });
}
