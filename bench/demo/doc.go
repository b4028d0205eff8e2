// Command demo shows the main job in under a minute: three nodes on loopback with data on disk hash every regular file
// below a folder through the queue, with worker processes running sha256sum; half-way the leader is killed with SIGKILL
// and restarted; at the end every recorded result is compared with the hash computed directly. It exits 0 only if all
// are equal. With -cluster it runs the three nodes in the foreground instead, on ports from -port on.
//
// Everything it starts is a process of the quorate binary, found by -binary; everything it writes is below a temporary
// folder that it removes, or below -data.
package main
