#!/bin/sh
# The first process of the VM. Its root is the machine's file system, read-only; it makes a copy-on-write one of it, moves
# there, runs the command, says the command's exit code, and switches the VM off.
#
# In: `settings` beside this file: `kernel`, the folder of the unpacked kernel.
# Out: on ttyS1 all that the command says, on ttyS2 its exit code. ttyS0 is the kernel's own.

here=${0%/*}
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
new=/mnt/root

switch_off() {
    # Changing a terminal's settings waits until what was written to it is out.
    stty -F /dev/ttyS1 raw
    echo "$1" >/dev/ttyS2
    stty -F /dev/ttyS2 raw
    echo o >/proc/sysrq-trigger
    sleep 60
}

give_up() {
    echo "the VM has no $1" >/dev/ttyS1
    switch_off 125
}

mount -t proc proc /proc
mount -t sysfs sys /sys
[ -c /dev/ttyS1 ] || mount -t devtmpfs dev /dev
# As a file would, without carriage returns.
stty -F /dev/ttyS1 raw -echo
echo "the first process runs on $(uname -r)" >/dev/console

. "$here/settings" || give_up "settings"
mount -t tmpfs tmpfs /mnt || give_up "memory for its files"
mkdir /mnt/changes /mnt/work $new
modprobe -d "$kernel" overlay || give_up "overlay file system"
mount -t overlay -o lowerdir=/,upperdir=/mnt/changes,workdir=/mnt/work overlay $new || give_up "copy of the root"

mount -t proc proc $new/proc
mount -t sysfs sys $new/sys
mount --rbind /dev $new/dev
mkdir -p $new/dev/pts $new/dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts $new/dev/pts
mount -t tmpfs shm $new/dev/shm
mount -t tmpfs run $new/run
mkdir -p $new/run/lock $new/lib/modules
mount -t cgroup2 cgroup2 $new/sys/fs/cgroup
mount -t bpf bpf $new/sys/fs/bpf
mount --bind "$kernel/lib/modules" $new/lib/modules || give_up "kernel modules"

# Not chroot: when the kernel itself asks for a module, its modprobe must see the same /lib/modules.
cd $new && pivot_root . mnt || give_up "root of its own"
cd /
# From here on nothing leads to the machine's own files but the copy.
umount -l /mnt
ip link set lo up

setsid sh "$here/command" </dev/null >/dev/ttyS1 2>&1
switch_off $?
