import { appendFile } from 'node:fs';
import { basename } from 'node:path';
import type { Drop, Outcome } from '../../../src/model/delivery.ts';
import type { Destination } from '../../../src/model/destination.ts';
import type {
  BatchLimits,
  DeliveryOutcome,
  DestinationType,
  OutboundBatch,
  Sender,
  SenderTools,
} from '../../../src/ports/destination-type.ts';
import { type LineSettings, lineForm } from './settings.ts';

/**
 * Adds events to a file, up to a hundred at once, a line each. What becomes of an event is written in it:
 * `refuse` in its property `answer` means that no later try helps, `once` that the second one does, `drop`
 * that nothing is written for it.
 */
export const lines: DestinationType<LineSettings> = {
  name: 'lines',
  integrationNames: ['Lines'],
  settings: lineForm,
  planning: { integrations: true, consent: true, deletes: false },
  taker: 'worker',
  targets: ({ path }) => [{ place: 0, label: basename(path) }],
  open: (tools) => new LineSender(tools),
};

const HUNDRED: BatchLimits = { events: 100, bytes: 1_000_000 };

class LineSender implements Sender {
  readonly #clock: SenderTools['clock'];
  readonly #seen = new Set<string>();
  #last: Promise<void> = Promise.resolve();

  constructor({ clock }: SenderTools) {
    this.#clock = clock;
  }

  most(): BatchLimits {
    return HUNDRED;
  }

  send(batch: OutboundBatch, done: Parameters<Sender['send']>[1]): void {
    const began = this.#clock.monotonic();
    const outcomes = batch.events.map(({ serialized: { event } }) =>
      this.#outcomeOf(event.messageId, event.properties?.['answer']),
    );
    const taken = batch.events.filter((_, nth) => outcomes[nth]!.kind === 'accepted');
    const { path, token } = settingsOf(batch.destination);
    const text = taken.map(({ serialized: { event }, replay }) =>
      JSON.stringify({ token, batch: batch.events.length, messageId: event.messageId, replay }),
    );
    this.#last = this.#last
      .then(() => added(path, text))
      .then((failure) => {
        const latencyMs = this.#clock.monotonic() - began;
        const told = outcomes.map((outcome): DeliveryOutcome => {
          const isLost = failure !== undefined && outcome.kind === 'accepted';
          if (isLost)
            return { outcome: { kind: 'retryable', reason: 'not_written' }, answer: failure, latencyMs };
          return { outcome, answer: outcome.kind === 'accepted' ? '' : 'as the event asks', latencyMs };
        });
        for (const target of batch.targets) done(target, told);
      });
  }

  async stop(): Promise<void> {
    await this.#last;
  }

  #outcomeOf(messageId: string, answer: unknown): Outcome | Drop {
    if (answer === 'drop') return { kind: 'dropped', reason: 'not_applicable', note: 'no line for it' };
    if (answer === 'refuse') return { kind: 'refused', reason: 'not_wanted' };
    if (answer !== 'once' || this.#seen.has(messageId)) return { kind: 'accepted', reason: 'accepted' };
    this.#seen.add(messageId);
    return { kind: 'retryable', reason: 'not_yet' };
  }
}

function settingsOf({ settings }: Destination): LineSettings {
  return settings as LineSettings;
}

/** Resolves to why nothing was written; undefined when it was. */
function added(path: string, text: readonly string[]): Promise<string | undefined> {
  if (text.length === 0) return Promise.resolve(undefined);
  return new Promise((resolve) =>
    appendFile(path, `${text.join('\n')}\n`, (error) => resolve(error === null ? undefined : error.message)),
  );
}
