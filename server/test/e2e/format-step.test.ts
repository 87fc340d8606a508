import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { FORMAT } from '../../src/adapters/sqlite/schema.ts';
import { send, track } from '../support/calls.ts';
import { checkedOut, knows } from '../support/earlier-program.ts';
import { adminTokenOf, makePlace, type Place, startArguments, startServer } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

/**
 * The last commit that writes the format before this one. Whoever adds a format names the commit before it
 * here.
 */
const BEFORE = 'ee0ace3e10d72ff1267a00fe3e579dbc4408a019';

/** The first format whose programs say that a store is newer before they judge anything else. */
const SAYS_SO_FIRST = 8;

const hasHistory = knows(BEFORE);
if (!hasHistory)
  console.log(
    'left out: an earlier program on a newer store, because git has no history here (git fetch --unshallow)',
  );

describe.skipIf(!hasHistory)('an earlier program', () => {
  let place: Place | undefined;
  let folder: string | undefined;
  let receiver: TestReceiver | undefined;
  afterEach(async () => {
    await receiver?.stop();
    receiver = undefined;
    place?.remove();
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  });

  it('refuses a store of this one, also after a kill, and leaves it as it is', async () => {
    place = makePlace('sources: [{ name: website, writeKeys: [wk] }]');
    folder = checkedOut(BEFORE);
    const first = await startServer(place);
    for (let nth = 0; nth < 20; nth++)
      expect((await send(first.url, '/v1/track', track(`m${nth}`))).status).toBe(200);
    await first.kill();
    const earlier = await ended(folder, startArguments(place));
    expect(earlier, earlier.stderr).toMatchObject({ code: 1 });
    if (FORMAT - 1 >= SAYS_SO_FIRST)
      expect(earlier.stderr).toMatch(`newer Millrace (format ${FORMAT}, this one knows ${FORMAT - 1})`);
    const second = await startServer(place);
    const headers = { authorization: `Bearer ${adminTokenOf(place)}` };
    await until('all events are there', async () => {
      const answer = await fetch(`${second.url}/api/v1/ledger`, { headers });
      expect(await answer.json()).toMatchObject({ balanced: true, sources: { website: { accepted: 20 } } });
    });
    await second.stop();
  });

  it('leaves a store, killed while it worked, in which this one finds and delivers everything', async () => {
    // Every third answer is a failure, so that deliveries wait, are tried again, and are counted as
    // delivered.
    receiver = await startReceiver({
      answer: (response, _, nth) => response.writeHead(nth % 3 === 0 ? 503 : 200).end(),
    });
    place = makePlace(`
sources: [{ name: website, writeKeys: [wk] }]
egress: { allow: [127.0.0.0/8] }
destinations: [{ name: crm, type: webhooks, sources: [website], settings: { endpoints: [{ url: '${receiver.url}' }] } }]
`);
    folder = checkedOut(BEFORE);
    const first = await startServer(place, { millrace: join(folder, 'cli/bin/millrace.js') });
    const ids = Array.from({ length: 120 }, (_, nth) => `m${nth}`);
    // Of all sizes that a transaction of that version wrote down, and of some that it did not.
    for (const [nth, id] of ids.entries())
      expect(
        (await send(first.url, '/v1/track', track(id, { pad: 'p'.repeat((nth % 40) * 150) }))).status,
      ).toBe(200);
    await receiver.count(60);
    await first.kill();
    const second = await startServer(place);
    const headers = { authorization: `Bearer ${adminTokenOf(place)}` };
    const arrived = () =>
      new Set(
        receiver!.arrivals.map(
          ({ body }) => (JSON.parse(body.toString()) as { messageId: string }).messageId,
        ),
      );
    await receiver.until(() => arrived().size === ids.length);
    const answer = await fetch(`${second.url}/api/v1/ledger`, { headers });
    expect(await answer.json()).toMatchObject({
      balanced: true,
      sources: { website: { accepted: ids.length } },
      destinations: { crm: { owed: ids.length } },
    });
    // Whatever stood in a slot alone is recognised when it comes again.
    for (const id of ids) await send(second.url, '/v1/track', track(id));
    const again = await fetch(`${second.url}/api/v1/ledger`, { headers });
    expect(await again.json()).toMatchObject({
      sources: { website: { accepted: ids.length, duplicates: ids.length } },
    });
    await second.stop();
  });
});

/** Runs `millrace` of a folder to its end. */
async function ended(
  folder: string,
  args: readonly string[],
): Promise<{ code: number | null; stderr: string }> {
  const child = spawn(process.execPath, [join(folder, 'cli/bin/millrace.js'), ...args], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stderr };
}
