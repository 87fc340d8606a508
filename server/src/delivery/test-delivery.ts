import type { Destination } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import type { Target } from '../model/lane.ts';
import { attemptOnWallClock, type Clock } from '../ports/clock.ts';
import type { OutboundBatch, PreviewedRequest, Sender } from '../ports/destination-type.ts';
import type { TestAttempt } from './contract.ts';
import { attemptOf } from './round.ts';

export interface TestDependencies {
  readonly sender: Sender;
  readonly targets: readonly Target[];
  readonly clock: Clock;
}

/**
 * Sends an event to every target of a destination once, so that an operator sees what is sent and answered.
 * It takes the way of every delivery: the same bytes and signatures, the same checks of addresses and
 * certificates, the same outcomes. It waits for every target, whatever `success` says. It retries and stores
 * nothing, and the health of the targets stays as it is.
 */
export function sendTestDelivery(
  event: Event,
  destination: Destination,
  { sender, targets, clock }: TestDependencies,
): Promise<TestAttempt[]> {
  const startedAt = clock.monotonic();
  const serialized = { event, arrivedAt: startedAt };
  const batch: OutboundBatch = { destination, targets, events: [{ serialized }], now: clock.now() };
  const requests = previewOf(batch, sender);
  const ended: TestAttempt[] = [];
  return new Promise((resolve) => {
    if (targets.length === 0) resolve([]);
    sender.send(batch, (target, [outcome]) => {
      const attempt = attemptOnWallClock(attemptOf(target, startedAt, outcome!), clock);
      ended.push({ place: target.place, request: requests.find((one) => one.target === target)!, attempt });
      if (ended.length === targets.length) resolve(ended.sort((a, b) => a.place - b.place));
    });
  });
}

/** The requests of a test, for people to see. Where a type has no requests it is the event itself. */
export function previewOf(batch: OutboundBatch, sender: Sender): readonly PreviewedRequest[] {
  if (sender.preview !== undefined) return sender.preview(batch);
  const [first] = batch.events;
  const body = Buffer.from(JSON.stringify(first!.serialized.event));
  return batch.targets.map((target) => ({ target, url: target.address ?? target.label, headers: {}, body }));
}
