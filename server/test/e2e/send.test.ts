import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { millrace, runVerb } from '../../../cli/test/program.ts';
import { makePlace, oneDestination, type Place, type Program, startServer } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

describe('millrace send', () => {
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    receiver = await startReceiver();
    place = makePlace(oneDestination([`${receiver.url}/in`]));
    program = await startServer(place);
  });

  afterAll(async () => {
    await program.kill();
    await receiver.stop();
    place.remove();
  });

  const send = (...args: string[]) => runVerb(['send', ...args], { MILLRACE_URL: program.url });

  it('makes a call of every type, prints its messageId, and the call arrives', async () => {
    const calls: [string, ...string[]][] = [
      ['identify', '--user-id', 'u1', '--traits', '{"plan":"pro"}'],
      ['track', '--user-id', 'u1', '--event', 'Order Placed', '--properties', '{"total":9}'],
      ['page', '--anonymous-id', 'a1', '--name', 'Home'],
      ['screen', '--user-id', 'u1', '--name', 'Home', '--category', 'Shop'],
      ['group', '--user-id', 'u1', '--group-id', 'g1'],
      ['alias', '--user-id', 'u1', '--previous-id', 'a1'],
    ];
    const ids = await Promise.all(
      calls.map(async (call) => {
        const { code, out, err } = await send(...call, '--write-key', 'wk');
        expect({ code, err }).toEqual({ code: 0, err: '' });
        return out.trim();
      }),
    );
    await receiver.count(6);
    const bodies = receiver.arrivals.map(({ body }) => JSON.parse(String(body)));
    expect(bodies.map(({ messageId }) => messageId).sort()).toEqual(ids.sort());
    expect(bodies.map(({ type }) => type).sort()).toEqual(calls.map(([type]) => type).sort());
    expect(bodies.find(({ type }) => type === 'track')).toMatchObject({
      ...{ userId: 'u1', event: 'Order Placed', properties: { total: 9 } },
    });
  });

  it('says why a call was not sent, and what is no call at all', async () => {
    const wrong = await send('track', '--write-key', 'nobody', '--user-id', 'u1', '--event', 'E');
    expect(wrong).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining('did not store the call (refused)'),
    });
    const missing = await send('track', '--write-key', 'wk', '--user-id', 'u1');
    expect(missing).toMatchObject({ code: 2, out: '', err: expect.stringContaining('(event_not_defined)') });
    for (const args of [
      ['tracked', '--write-key', 'wk'],
      ['track'],
      ['track', '--write-key', 'wk', '--properties', '[1]'],
    ]) {
      expect((await send(...args)).code).toBe(2);
    }
  });
});

describe('millrace dev --demo', () => {
  it('sends one call of every type, and each is delivered and verified', async () => {
    const place = makePlace('');
    const program = millrace(['dev', '--demo', '--port', '0', '--data', place.data]);
    try {
      for (const type of ['identify', 'track', 'page', 'screen', 'group', 'alias']) {
        await program.says('out', new RegExp(`${type}\\b[^\\n]*\\n`));
      }
      const [sixLines] = await program.says('out', /(?:[\s\S]*?verified){6}/);
      expect(sixLines).not.toContain('wrong signature');
    } finally {
      program.child.kill('SIGTERM');
      await program.ended;
      place.remove();
    }
  });
});
