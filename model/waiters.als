/*
 * Waiting callers of one limiter: the queue of a Client.
 *
 * Waiters stand in one queue, and one call at a time asks Redis for all of them. Callers arrive and
 * leave while a call is in flight, a call fails before or after it took permits, and other Clients
 * take permits. There are no times here: a permit that is taken returns some day, and the timer of
 * the queue is the permit that it waits for. Each waiter wants one permit.
 */
module waiters

abstract sig State {}
one sig Queued, InCall, LeftInCall, Served, Failed, Left extends State {}

sig Waiter { var state: lone State } -- none before it arrives

abstract sig Taker {}
one sig Caller, Other, Unknown extends Taker {} -- Unknown: a call that failed took it

sig Permit {
  var takenBy: lone Taker,
  var grantedTo: lone Waiter -- by the call in flight, before its reply arrives
}

abstract sig Call {}
one sig Sent, Executed extends Call {}

one sig Queue {
  var call: lone Call,       -- in flight
  var timer: lone Permit,    -- the queue asks when this one returns
  var due: lone Queue        -- has an element if the queue has to ask in any case
}

lone sig Forgetful {}        -- the deliberate mistake: a reply cancels what is due

fun waiting: set Waiter { state.(Queued + InCall) }
fun free: set Permit { Permit - takenBy.Taker }

pred sameWaiters { state' = state }
pred samePermits { takenBy' = takenBy and grantedTo' = grantedTo }
pred sameQueue { call' = call and timer' = timer and due' = due }

pred arrive[w: Waiter] {
  no w.state
  state' = state + w -> Queued
  due' = Queue -> Queue and call' = call and timer' = timer and samePermits
}

pred canSend { no Queue.call and some state.Queued and (some Queue.due or some Queue.timer & free) }

pred send {
  canSend
  state' = state ++ state.Queued -> InCall
  call' = Queue -> Sent and no due' and no timer' and samePermits
}

-- Redis runs the script: it grants to as many as there are free permits.
pred execute {
  Queue.call = Sent
  let asked = state.(InCall + LeftInCall) {
    grantedTo' in free -> asked
    all p: Permit | lone p.grantedTo'
    all w: asked | lone grantedTo'.w
    no free - grantedTo'.Waiter or asked in Permit.grantedTo'
  }
  takenBy' = takenBy + grantedTo'.Waiter -> Caller
  call' = Queue -> Executed and timer' = timer and due' = due and sameWaiters
}

-- A permit that was granted to a caller that has left is released.
pred reply {
  Queue.call = Executed
  state' = state ++ (state.InCall & Permit.grantedTo) -> Served ++ (state.InCall - Permit.grantedTo) -> Queued
    ++ state.LeftInCall -> Left
  takenBy' = takenBy - grantedTo.(state.LeftInCall) -> Taker
  no grantedTo' and no call'
  due' = (some Forgetful implies none -> none else due)
  some state.InCall - Permit.grantedTo implies one timer' else no timer'
}

-- The call fails. Its waiters get the error, whether the script has run or not.
pred fail {
  some Queue.call
  state' = state ++ state.InCall -> Failed ++ state.LeftInCall -> Left
  takenBy' = takenBy ++ grantedTo.Waiter -> Unknown
  no grantedTo' and no call'
  due' = (some state.Queued implies Queue -> Queue else none -> none) and no timer'
}

pred leave[w: Waiter] {
  w in waiting
  state' = state ++ w -> (w.state = InCall implies LeftInCall else Left)
  sameQueue and samePermits
}

pred otherTakes[p: Permit] {
  p in free and takenBy' = takenBy + p -> Other
  grantedTo' = grantedTo and sameQueue and sameWaiters
}

pred return[p: Permit] {
  p in takenBy.Taker and no p.grantedTo and takenBy' = takenBy - p -> Taker
  grantedTo' = grantedTo and sameQueue and sameWaiters
}

pred nothing { sameQueue and sameWaiters and samePermits }

fact behaviour {
  no state and no takenBy and no grantedTo and no call and no timer and no due
  always (send or execute or reply or fail or nothing
    or (some w: Waiter | arrive[w] or leave[w])
    or (some p: Permit | otherTakes[p] or return[p]))
}

-- What can happen for ever happens some day, and other Clients leave permits some day.
pred fair {
  always (canSend implies eventually (send or not canSend))
  always (some Queue.call implies eventually no Queue.call)
  always all p: Permit | some p.takenBy implies eventually no p.takenBy
  eventually always no p: Permit | otherTakes[p]
}

-- A waiter gets permits or an error, or its caller leaves.
assert ServedOrTold { fair implies always all w: Waiter | w in waiting implies eventually w not in waiting }

-- What a waiter was granted is its own: a caller that left keeps nothing.
assert NothingKept {
  always (no Queue.call implies takenBy.Caller in Permit and no grantedTo and no state.LeftInCall)
}

-- Every event can happen, so that no assertion holds because nothing does.
pred Everything {
  fair
  eventually some state.LeftInCall
  eventually some takenBy.Unknown
  eventually some takenBy.Other
  eventually some Queue.timer
  eventually (some state.InCall and some state.Queued)
  some w: Waiter | eventually w.state = Served
}

run Everything for exactly 3 Waiter, exactly 2 Permit, 0 Forgetful, 1..24 steps expect 1
check ServedOrTold for exactly 3 Waiter, exactly 2 Permit, 0 Forgetful, 12 steps expect 0
check NothingKept for exactly 3 Waiter, exactly 2 Permit, 0 Forgetful, 12 steps expect 0
-- The deliberate mistake is found.
Mistake: check ServedOrTold for exactly 3 Waiter, exactly 2 Permit, exactly 1 Forgetful, 12 steps expect 1
