import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { ROOT } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { sharedServer } from '../support/shared-server.ts';

const tlsFile = (name: string) => readFileSync(join(ROOT, 'server/test/support/tls', name));

describe('an endpoint', () => {
  const server = sharedServer(() => 'egress: { allow: [127.0.0.0/8] }');
  let receivers: TestReceiver[];

  async function connect(name: string, ...endpoints: TestReceiver[]): Promise<void> {
    receivers = endpoints;
    await server.connect(
      name,
      endpoints.map(({ url }) => url),
    );
  }

  afterEach(async () => {
    for (const receiver of receivers) await receiver.stop();
  });

  const call = (destination: string, messageId: string) =>
    send(server.url, '/v1/track', track(messageId), { writeKey: destination });

  it('with a self-signed certificate gets no request, and the reason is in the log', async () => {
    await connect(
      'unsafe',
      await startReceiver({ tls: { key: tlsFile('self-signed.key'), cert: tlsFile('self-signed.pem') } }),
    );
    await call('unsafe', 'm1');
    const [line] = await server.program.saw(/.*certificate_untrusted.*/);
    expect(JSON.parse(line)).toMatchObject({
      event: 'destination.failing',
      destination: 'unsafe',
      reason: 'certificate_untrusted',
    });
    expect(line).toContain('self-signed');
    expect(receivers[0]!.arrivals).toHaveLength(0);
  });

  it('that has not answered after 5 s is timed out and tried again with the same bytes', async () => {
    const again = Promise.withResolvers<void>();
    await connect(
      'slow',
      await startReceiver({
        answer: (response, _arrival, nth) => {
          if (nth > 0) again.resolve();
          void again.promise.then(() => response.end());
        },
      }),
    );
    const sentAt = Date.now();
    await call('slow', 'm1');
    const [line] = await server.program.saw(/.*"timeout".*/);
    expect(JSON.parse(line)).toMatchObject({
      event: 'destination.failing',
      destination: 'slow',
      reason: 'timeout',
    });
    const receiver = receivers[0]!;
    await receiver.count(2);
    const [first, second] = receiver.arrivals;
    // The time limit of five seconds, then a first delay of one second with a fifth of jitter either way.
    expect(second!.at - sentAt).toBeGreaterThan(5000 + 700);
    expect(second!.body.equals(first!.body)).toBe(true);
    expect(second!.headers['webhook-id']).toBe('m1');
    const [recovered] = await server.program.saw(/.*destination\.recovered.*/);
    expect(JSON.parse(recovered)).toMatchObject({ destination: 'slow' });
  });

  it('that refuses is not tried again, and the delivery is given up with the reason', async () => {
    await connect(
      'gone',
      await startReceiver({
        answer: (response) => {
          response.writeHead(410).end('gone for good');
        },
      }),
    );
    await call('gone', 'm1');
    const [line] = await server.program.saw(/.*status_410.*/);
    expect(JSON.parse(line)).toMatchObject({
      event: 'destination.refusing',
      destination: 'gone',
      dead: 1,
      answer: 'gone for good',
    });
  });

  it('is not tried again when a sibling has accepted', async () => {
    const down = await startReceiver({ answer: (response) => void response.writeHead(503).end() });
    const up = await startReceiver();
    await connect('siblings', down, up);
    for (let n = 0; n < 20; n++) await call('siblings', `m${n}`);
    await Promise.all([up.count(20), down.count(20)]);
    // A retry would come after at most 1.2 s; a later event shows that this time has passed.
    await sleep(1500);
    await call('siblings', 'later');
    await up.count(21);
    const ids = down.arrivals.map(({ headers }) => headers['webhook-id']);
    expect(new Set(ids).size).toBe(ids.length);
  });
});
