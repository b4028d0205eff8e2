package cluster

import "syscall"

// lowerPriority makes the calling thread nicer.
func lowerPriority(by int) {
	now, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0) // 0 is the calling thread
	if err != nil {
		return
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, min(threadNice(now)+by, 19)) // without it f only runs as all do
}

func mainThread() bool { return syscall.Gettid() == syscall.Getpid() }

// threadNice is the nice value of a Getpriority answer, which the kernel turns round to keep it positive.
func threadNice(answer int) int { return 20 - answer }
