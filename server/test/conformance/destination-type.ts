import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { maskSchema } from '../../src/control-api/records.ts';
import { destinationView, toJson, unmaskSecrets } from '../../src/control-api/views.ts';
import { type Drop, keptNote, type Outcome } from '../../src/model/delivery.ts';
import { POLICY_KEYS } from '../../src/model/delivery-policy.ts';
import type { Event } from '../../src/model/event.ts';
import { hiddenTexts } from '../../src/model/hidden-values.ts';
import type { JsonObject } from '../../src/model/json.ts';
import { MAX_TARGETS } from '../../src/model/lane.ts';
import type { DestinationRecord } from '../../src/model/settings.ts';
import {
  type DeliveryOutcome,
  type DestinationType,
  type OutboundBatch,
  type Sender,
  targetsOf,
} from '../../src/ports/destination-type.ts';

/** A type under test, with a world for it to send to. */
export interface TypeHarness {
  readonly type: DestinationType;
  /**
   * Settings as an operator writes them, with something at each place that is hidden. What they name takes
   * every event.
   */
  readonly settings: () => object;
  /** Settings of which every target fails. */
  readonly failing: () => object;
  /** Properties of an event for which the type sends nothing. Absent where it sends every event. */
  readonly dropped?: JsonObject;
  readonly open: () => Promise<Sender>;
  readonly close: () => Promise<void>;
}

const NOW = Date.parse('2026-01-02T03:04:05.678Z');
const ALL: readonly string[] = ['All', 'all'];
/** Settings of every destination, which no type may define. */
const POLICY: readonly string[] = POLICY_KEYS;

/** The promises of `DestinationType` and `Sender` (ports/destination-type.ts). */
export function destinationTypeConformance(name: string, harness: TypeHarness): void {
  const { type } = harness;
  const types = new Map([[type.name, type]]);
  const { schema, hidden } = type.settings;

  describe(`${name}: settings`, () => {
    it('have a name of their own', () => {
      expect(type.name).toMatch(/^[a-z][a-z0-9-]*$/);
      const { integrationNames: names, planning } = type;
      expect(names.length > 0, 'names by which it is asked').toBe(planning.integrations);
      expect(new Set(names).size).toBe(names.length);
      for (const one of names) {
        expect(one).toMatch(/^[A-Z]/);
        expect(ALL).not.toContain(one);
      }
    });

    it('are described key by key, have none of the keys that every destination has, and take no other', () => {
      for (const [key, value] of Object.entries(schema.shape))
        expect(value.meta()?.description, key).toBeTruthy();
      expect(Object.keys(schema.shape).filter((key) => POLICY.includes(key))).toEqual([]);
      expect(schema.safeParse({ ...harness.settings(), surely_none: 1 }).success).toBe(false);
    });

    it('are the same after they were stored', () => {
      const settings = schema.parse(harness.settings());
      expect(schema.parse(JSON.parse(JSON.stringify(settings)))).toEqual(settings);
    });

    it('are shown without what is hidden, as their schema says, and come back whole', () => {
      const record = recordOf(type, harness.settings());
      const view = toJson(destinationView(record, types));
      const shown = JSON.stringify(view);
      for (const { kind, text } of hiddenTexts(record.settings, hidden))
        if (kind !== 'address') expect(shown).not.toContain(text);
      const described = type.settings.shown?.(maskSchema);
      if (described !== undefined) expect(described.safeParse(view['settings']).error).toBeUndefined();
      expect(unmaskSecrets(view, record, types)['settings']).toMatchObject(record.settings);
    });

    it('have something at each place that is hidden, so that these tests say something', () => {
      const kinds = new Set(hiddenTexts(schema.parse(harness.settings()), hidden).map(({ kind }) => kind));
      const { addresses, secrets, credentials = [], headers = [] } = hidden;
      expect(kinds.has('address')).toBe(addresses.length > 0);
      expect(kinds.has('secret')).toBe(secrets.length > 0);
      expect(kinds.has('credential')).toBe(credentials.length > 0);
      expect(kinds.has('header')).toBe(headers.length > 0);
    });

    it('name targets in their places, of which people see no secret', () => {
      const settings = schema.parse(harness.settings());
      const targets = type.targets(settings);
      // What has nowhere to go is given up at once.
      expect(targets.length).toBeGreaterThanOrEqual(1);
      expect(targets.length).toBeLessThanOrEqual(MAX_TARGETS);
      expect(targets.map(({ place }) => place)).toEqual([...targets.keys()]);
      const secrets = hiddenTexts(settings, hidden).filter(({ kind }) => kind !== 'address');
      for (const { label, address } of targets) {
        for (const { text } of secrets) expect(label).not.toContain(text);
        if (address !== undefined)
          expect(hiddenTexts(settings, hidden).map(({ text }) => text)).toContain(address);
      }
    });
  });

  if (type.taker !== 'worker') return;

  describe(`${name}: its sender`, () => {
    let sender: Sender;
    beforeAll(async () => {
      sender = await harness.open();
    });
    afterAll(async () => {
      await sender.stop();
      await harness.close();
    });

    const batchOf = (settings: object, events: number): OutboundBatch => {
      const record = recordOf(type, settings);
      const destination = { ...record, id: 7, version: 1 };
      const targets = targetsOf(destination, types);
      return {
        destination,
        targets,
        events: Array.from({ length: events }, (_, nth) => eventOf(nth)),
        now: NOW,
      };
    };
    const { dropped } = harness;

    it('takes one event at least, and tells of each event of a full batch for each target once, and not before it returns', async () => {
      const limits = sender.most(batchOf(harness.settings(), 1).destination);
      expect(limits.events).toBeGreaterThanOrEqual(1);
      const batch = batchOf(harness.settings(), Math.min(limits.events, 100));
      const told = await sent(sender, batch);
      expect([...told.keys()].sort()).toEqual(batch.targets.map(({ place }) => place));
      for (const outcomes of told.values()) {
        expect(outcomes.map(({ outcome }) => outcome.kind)).toEqual(batch.events.map(() => 'accepted'));
        for (const { outcome, latencyMs } of outcomes) {
          const { status } = outcome as Outcome;
          // Stores keep nothing else of it.
          expect(outcome.reason).toBe(status === undefined ? 'accepted' : `status_${status}`);
          expect(latencyMs).toBeGreaterThanOrEqual(0);
        }
      }
    });

    it('never throws: what fails is an outcome for each event, and says no secret', async () => {
      const batch = batchOf(harness.failing(), 1);
      const secrets = hiddenTexts(batch.destination.settings, hidden).filter(
        ({ kind }) => kind !== 'address',
      );
      for (const outcomes of (await sent(sender, batch)).values()) {
        expect(outcomes).toHaveLength(1);
        const [{ outcome, answer }] = outcomes as [DeliveryOutcome];
        expect(['retryable', 'refused']).toContain(outcome.kind);
        expect(outcome.reason).toMatch(/^[a-z][a-z0-9_]*$/);
        for (const { text } of secrets) expect(answer).not.toContain(text);
      }
    });

    if (dropped !== undefined)
      it('drops what it has nothing to send for, with a note that is kept whole, and sends the others', async () => {
        const batch = batchOf(harness.settings(), 3);
        const limits = sender.most(batch.destination);
        const events = [eventOf(100), eventOf(101, dropped), eventOf(102)].slice(0, limits.events);
        const expected = ['accepted', 'dropped', 'accepted'].slice(0, limits.events);
        for (const outcomes of (await sent(sender, { ...batch, events })).values())
          expect(outcomes.map(({ outcome }) => outcome.kind)).toEqual(expected);
        const alone = await sent(sender, { ...batch, events: [eventOf(103, dropped)] });
        const secrets = hiddenTexts(batch.destination.settings, hidden).filter(
          ({ kind }) => kind !== 'address',
        );
        for (const outcomes of alone.values()) {
          expect(outcomes).toHaveLength(1);
          const { kind, note = '' } = outcomes[0]!.outcome as Drop;
          expect(kind).toBe('dropped');
          expect(note).toBe(keptNote(note));
          for (const { text } of secrets) expect(note).not.toContain(text);
        }
      });

    it('shows the same request for the same batch, one for each target', () => {
      const batch = batchOf(harness.settings(), 1);
      const shown = sender.preview?.(batch);
      expect(shown?.map(({ target }) => target)).toEqual(shown && batch.targets);
      expect(sender.preview?.(batch)).toEqual(shown);
    });
  });
}

function recordOf(type: DestinationType, settings: object): DestinationRecord {
  return {
    ...{ name: 'crm', type: type.name, sources: ['website'], enabled: true },
    settings: type.settings.schema.parse(settings) as object,
  };
}

function eventOf(nth: number, properties: JsonObject = {}): OutboundBatch['events'][number] {
  const at = new Date(NOW).toISOString();
  const event: Event = {
    ...{ messageId: `m-${nth}`, type: 'track' as const, channel: 'server' as const, userId: 'u1' },
    ...{ event: 'Order Placed', properties },
    ...{ context: {}, integrations: {}, timestamp: at, receivedAt: at },
  };
  return { serialized: { event, arrivedAt: NOW } };
}

/**
 * Outcomes by the place of the target. Rejects when a target is reported twice, or before `send` has
 * returned.
 */
function sent(
  sender: Sender,
  batch: OutboundBatch,
): Promise<ReadonlyMap<number, readonly DeliveryOutcome[]>> {
  return new Promise((resolve, reject) => {
    const told = new Map<number, readonly DeliveryOutcome[]>();
    let hasReturned = false;
    sender.send(batch, (target, outcomes) => {
      if (!hasReturned || told.has(target.place))
        reject(new Error(`told of ${target.place} too early or twice`));
      told.set(target.place, outcomes);
      if (told.size === batch.targets.length) resolve(told);
    });
    hasReturned = true;
  });
}
