/**
 * Situations that worlds must come into, or their promises prove little: the gate fails where its seeds do
 * not reach one of them. A name says what is happening at that moment.
 */
export const SITUATIONS = [
  // Processes
  'killed with an append under way',
  'killed with a settle under way',
  'killed with a claim under way',
  'killed with requests in flight',
  'killed while it starts',
  'killed behind a chosen operation',
  'killed with a deletion under way',
  'killed with a replay under way',
  'started with deliveries of a dead process',
  'stopped with requests in flight',
  'stood still, and timers came first',
  'stood still, and sockets came first',
  // Store
  'append in doubt',
  'settle in doubt',
  'claim in doubt',
  'makeDue in doubt',
  'advance in doubt',
  'enqueue in doubt',
  'append refused',
  'settle refused',
  'claim refused',
  'store silent',
  'claim beside results of its lane',
  'results unwritten for a second',
  'expire gave deliveries up',
  // Delivery
  'breaker open',
  'breaker closed again',
  'probe failed',
  'makeDue moved deliveries',
  'claimed from disk',
  'delivery failed three times',
  'retry window over',
  'retry window over after a pause',
  'refused for good',
  'accepted twice',
  'accepted after the time limit',
  'told to come later',
  'round failed after the endpoint was back',
  'one of several endpoints accepted',
  'one lane of several settled',
  'concurrency used up',
  // Operators
  'paused with requests in flight',
  'paused with an open breaker',
  'changed with requests in flight',
  'resumed with deliveries on disk',
  'replay done',
  'dead letter revived',
  'event sent by a replay and by its call',
  // Deletion
  'user deleted with deliveries pending',
  'user deleted with a request in flight',
  'user deleted with a call of theirs unanswered',
  'erased event read',
  'call of a suppressed user discarded',
  'suppression lifted',
  'step of a deletion repeated',
  // Several nodes
  'lease lost',
  'lease lost with requests in flight',
  'joined again',
  'deliveries adopted',
  'job taken over',
  'two nodes sent to one lane',
  'turn to probe refused',
  'waited for another node',
  'erasure told to another node',
  // Clients and clocks
  'call repeated without an answer',
  'call repeated to another node',
  'duplicate found',
  'bad call discarded',
  'wall clock set back with retries waiting',
  'wall clock set forward with retries waiting',
  // Profiles
  'computation event delivered',
  'killed with profiles behind',
] as const;

/** Situations of worlds with the embedded engine, which a kill of its process is enough for. */
export const PROCESS_SITUATIONS = [
  ...(['killed with an append under way', 'killed with a settle under way'] as const),
  ...(['killed with requests in flight', 'killed while it starts', 'killed with profiles behind'] as const),
  ...(['started with deliveries of a dead process', 'claimed from disk', 'duplicate found'] as const),
] as const satisfies readonly Situation[];

/** Situations for which its machine has to die, or its disk to fail. */
const DISK_SITUATIONS = [
  ...([
    'power failed',
    'power failed in a commit',
    'power failed at a reopening',
    'start refused by a failing disk',
  ] as const),
] as const;

export const ENGINE_SITUATIONS: readonly Situation[] = [
  ...PROCESS_SITUATIONS,
  ...DISK_SITUATIONS,
  ...(['append refused', 'settle refused', 'claim refused'] as const),
  'append in doubt',
];

/** Situations of worlds whose nodes have the leases of PostgreSQL. */
export const LEASE_SITUATIONS = [
  ...(['cut off from the database', 'lease taken in doubt'] as const),
  'connections of a dead machine stayed',
] as const;

export type Situation =
  | (typeof SITUATIONS)[number]
  | (typeof DISK_SITUATIONS)[number]
  | (typeof LEASE_SITUATIONS)[number];
export type Reached = Map<Situation, number>;
