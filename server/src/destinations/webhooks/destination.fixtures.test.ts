import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Event } from '../../model/event.ts';
import { webhookId } from '../http/headers.ts';
import { signBody, standardWebhooksHeaders } from '../http/signatures.ts';
import { serializePayload } from './payload.ts';
import type { Format } from './settings.ts';

/**
 * One file of `spec/fixtures/webhook`: a call, the event it becomes, and the exact bytes and signature of its
 * request. Bodies and signatures were made apart from this code (an HMAC of another program over bytes
 * written from the specification), so that both being wrong in the same way is unlikely.
 */
interface Fixture {
  readonly event: Event;
  readonly format: Format;
  /** The project of the event's source. With the format `segment`. */
  readonly projectId?: string;
  readonly secret: string;
  readonly body: string;
  readonly signature: string;
  readonly webhookId: string;
  /** The Standard Webhooks headers of a request sent at that time, signed with each of these secrets. */
  readonly standard?: {
    readonly secrets: readonly string[];
    readonly sentAt: string;
    readonly webhookTimestamp: string;
    readonly webhookSignature: string;
  };
  /** The same, signed with a key of ed25519 by the package cryptography of Python. */
  readonly public?: {
    readonly privateKey: string;
    readonly publicKey: string;
    readonly sentAt: string;
    readonly webhookTimestamp: string;
    readonly webhookSignature: string;
  };
}

const FOLDER = new URL('../../../../spec/fixtures/webhook/', import.meta.url);

const files = readdirSync(FOLDER).filter((file) => file.endsWith('.json'));
const fixtures = files.map((file): [string, Fixture] => [
  file,
  JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8')),
]);

/** spec/specification.md, "Documented format": every key a documented body may have, in its order. */
const DOCUMENTED: Readonly<Record<Event['type'], readonly string[]>> = {
  identify: ['version', 'type', 'userId', 'anonymousId', 'messageId', 'traits', 'context', 'timestamp'],
  track: [
    ...['version', 'type', 'userId', 'anonymousId', 'messageId'],
    ...['event', 'properties', 'context', 'timestamp'],
  ],
  page: [
    ...['version', 'type', 'userId', 'anonymousId', 'messageId'],
    ...['name', 'category', 'properties', 'context', 'timestamp'],
  ],
  screen: [
    ...['version', 'type', 'userId', 'anonymousId', 'messageId'],
    ...['name', 'category', 'properties', 'context', 'timestamp'],
  ],
  group: [
    ...['version', 'type', 'userId', 'anonymousId', 'messageId'],
    ...['groupId', 'traits', 'context', 'timestamp'],
  ],
  alias: [
    ...['version', 'type', 'Previous ID', 'User ID', 'anonymousId', 'messageId'],
    ...['context', 'timestamp'],
  ],
  delete: ['type', 'userId', 'timestamp'],
};

const ALWAYS = ['version', 'type', 'messageId', 'properties', 'traits', 'context', 'timestamp'];

describe('the fixtures of spec/fixtures/webhook', () => {
  it('hold every type in every format', () => {
    const seen = new Set(fixtures.map(([, { event, format }]) => `${event.type} ${format}`));
    // No client sends a delete notification: payload.test.ts has it.
    const all = Object.keys(DOCUMENTED)
      .filter((type) => type !== 'delete')
      .flatMap((type) => [`${type} documented`, `${type} canonical`, `${type} segment`]);
    expect([...seen].sort()).toEqual(all.sort());
  });

  it.each(fixtures)('%s: the event becomes exactly these bytes, this signature and this id', (_, fixture) => {
    const made = serializePayload(fixture.event, fixture.format, fixture.projectId);
    expect(made).toBe(fixture.body);
    expect(signBody(Buffer.from(made), fixture.secret)).toBe(fixture.signature);
    expect(webhookId(fixture.event.messageId)).toBe(fixture.webhookId);
  });

  it.each(fixtures.filter(([, { standard }]) => standard !== undefined))(
    '%s: the Standard Webhooks headers are exactly these',
    (_, { body: text, webhookId: id, standard }) => {
      const { secrets, sentAt, webhookTimestamp, webhookSignature } = standard!;
      const message = { id, at: Date.parse(sentAt), bytes: Buffer.from(text) };
      expect(standardWebhooksHeaders(message, secrets)).toEqual({
        'Webhook-Timestamp': webhookTimestamp,
        'Webhook-Signature': webhookSignature,
      });
    },
  );

  it.each(fixtures.filter(([, fixture]) => fixture.public !== undefined))(
    '%s: the public signature is exactly this, and stands behind the others',
    (_, { body: text, webhookId: id, standard, public: given }) => {
      const { sentAt, webhookTimestamp, webhookSignature, ...key } = given!;
      const message = { id, at: Date.parse(sentAt), bytes: Buffer.from(text) };
      expect(standardWebhooksHeaders(message, [], { id: 'k', ...key })).toEqual({
        'Webhook-Timestamp': webhookTimestamp,
        'Webhook-Signature': webhookSignature,
      });
      const both = standardWebhooksHeaders(message, standard!.secrets, { id: 'k', ...key });
      expect(both['Webhook-Signature']).toBe(`${standard!.webhookSignature} ${webhookSignature}`);
    },
  );

  it.each(fixtures)('%s: a receiver that re-serialises gets the same bytes', (_, fixture) => {
    expect(JSON.stringify(JSON.parse(fixture.body))).toBe(fixture.body);
  });

  it.each(fixtures.filter(([, { format }]) => format === 'documented'))(
    '%s: the keys are the documented ones of the type, in their order',
    (_, fixture) => {
      const allowed = DOCUMENTED[fixture.event.type];
      const keys = Object.keys(JSON.parse(fixture.body));
      expect(keys).toEqual(allowed.filter((key) => keys.includes(key)));
      expect(keys).toEqual(expect.arrayContaining(allowed.filter((key) => ALWAYS.includes(key))));
    },
  );

  it.each(fixtures.filter(([, { format }]) => format === 'canonical'))(
    '%s: the body is the event, and no credential is in it',
    (_, fixture) => {
      expect(JSON.parse(fixture.body)).toEqual(fixture.event);
      expect(fixture.body).not.toMatch(/writeKey|wk_secret/);
    },
  );
});
