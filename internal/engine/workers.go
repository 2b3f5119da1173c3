package engine

import "time"

// workers runs tasks on goroutines of the Engine. A goroutine that is idle waits for the next task for a moment: its stack has
// grown to the size that a call needs.
type workers chan func()

// idleFor is how long a worker waits for a task. It bounds how long a goroutine outlives the last call.
const idleFor = 40 * time.Millisecond

func (w workers) run(task func()) {
	select {
	case w <- task:
	default:
		go w.work(task)
	}
}

func (w workers) work(task func()) {
	idle := time.NewTimer(idleFor)
	defer idle.Stop()
	for {
		task()
		idle.Reset(idleFor)
		select {
		case task = <-w:
		case <-idle.C:
			return
		}
	}
}
