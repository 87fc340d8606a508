import type { MemoryContents, PendingSet } from './contents.ts';

/**
 * Sets on disk in the order they are due: a binary heap per destination, so that parking and claiming cost the same
 * however much waits. Claims take from the front; nothing in it is ever changed in place except by losing deliveries. What
 * changes the middle, a release or an expiry, puts the whole in order anew.
 */
export function firstDue(contents: MemoryContents, destination: number): PendingSet | undefined {
  return contents.onDisk.get(destination)?.[0];
}

/** Puts a set on disk. */
export function putOnDisk(contents: MemoryContents, set: PendingSet): void {
  const heap = contents.onDisk.get(set.destination) ?? [];
  if (heap.length === 0) contents.onDisk.set(set.destination, heap);
  let place = heap.length;
  while (place > 0) {
    const parentPlace = (place - 1) >> 1;
    const parent = heap[parentPlace]!;
    if (isBefore(parent, set)) break;
    heap[place] = parent;
    place = parentPlace;
  }
  heap[place] = set;
}

/** Takes the set that `firstDue` shows. */
export function takeFirstDue(contents: MemoryContents, destination: number): void {
  const heap = contents.onDisk.get(destination);
  const last = heap?.pop();
  if (heap === undefined || last === undefined || heap.length === 0) return;
  let place = 0;
  for (;;) {
    let childPlace = 2 * place + 1;
    const right = heap[childPlace + 1];
    if (right !== undefined && isBefore(right, heap[childPlace]!)) childPlace += 1;
    const child = heap[childPlace];
    if (child === undefined || isBefore(last, child)) break;
    heap[place] = child;
    place = childPlace;
  }
  heap[place] = last;
}

/** Every set of a destination on disk, the first due first. */
export function inOrder(contents: MemoryContents, destination: number): PendingSet[] {
  return [...(contents.onDisk.get(destination) ?? [])].sort((one, other) => (isBefore(one, other) ? -1 : 1));
}

/** Puts these sets in the place of all that the destination had on disk. A sorted list is a heap. */
export function replaceOnDisk(
  contents: MemoryContents,
  destination: number,
  sets: readonly PendingSet[],
): void {
  contents.onDisk.set(
    destination,
    [...sets].sort((one, other) => (isBefore(one, other) ? -1 : 1)),
  );
}

/** Among sets due at the same time the older one goes first. */
function isBefore(one: PendingSet, other: PendingSet): boolean {
  return one.dueAt === other.dueAt ? one.id < other.id : one.dueAt < other.dueAt;
}
