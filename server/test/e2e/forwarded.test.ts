import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { adminTokenOf, makePlace, type Place, type Program, ROOT, startServer } from '../support/program.ts';
import { until } from '../support/until.ts';

/** Cases of another service's webhook that points here. */
interface Case {
  readonly id: string;
  readonly name: string;
  readonly body: object;
  readonly secret?: string;
  readonly signature?: string;
  readonly expect: {
    readonly status: number;
    readonly stored?: Readonly<Record<string, unknown>>;
    readonly stored_count?: number;
    readonly duplicate?: boolean;
    readonly counted?: string;
  };
}

const { cases } = JSON.parse(readFileSync(join(ROOT, 'spec/fixtures/forwarded/cases.json'), 'utf8')) as {
  readonly cases: readonly Case[];
};

interface SourceLedger {
  readonly accepted: number;
  readonly duplicates: number;
  readonly discarded: Readonly<Record<string, number>>;
}

describe('calls that another service passes on', () => {
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    place = makePlace(`
sources:
  - { name: website, writeKeys: [wk], rateLimitPerAddress: 1 }
  - { name: signed, writeKeys: [wk_signed], forwarded: { sharedSecret: not-a-real-secret-1 } }
  - { name: slow, writeKeys: [wk_slow], rateLimit: 1 }
`);
    program = await startServer(place);
  });

  afterAll(async () => {
    await program.kill();
    place.remove();
  });

  const ask = async (path: string) => {
    const headers = { authorization: `Bearer ${adminTokenOf(place)}` };
    return (await (await fetch(`${program.url}/api/v1/${path}`, { headers })).json()) as {
      readonly sources: Readonly<Record<string, SourceLedger>>;
      readonly data: readonly { readonly event: Readonly<Record<string, unknown>> }[];
    };
  };
  const countsOf = async (source: string): Promise<SourceLedger> => {
    const { sources } = await ask('ledger');
    return sources[source] ?? { accepted: 0, duplicates: 0, discarded: {} };
  };
  const forward = (
    body: string | Buffer,
    { key = 'wk', path = '/v1/forwarded', headers = {} as Record<string, string> } = {},
  ) =>
    fetch(`${program.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}`, ...headers },
      body: typeof body === 'string' ? body : new Uint8Array(body),
    });

  it.each(cases)('$id: $name', async ({ body, secret, signature, expect: expected }) => {
    const source = secret === undefined ? 'website' : 'signed';
    const before = await countsOf(source);
    const answer = await forward(JSON.stringify(body), {
      key: secret === undefined ? 'wk' : 'wk_signed',
      headers: signature === undefined ? {} : { 'x-signature': signature },
    });
    expect(answer.status).toBe(expected.status);
    if (expected.status === 200) expect(await answer.json()).toEqual({ success: true });
    const { stored, stored_count: count = stored === undefined ? 0 : 1, duplicate, counted } = expected;
    const reason = counted === 'delete' ? 'forwarded_delete' : 'invalid_signature';
    const differences = {
      accepted: count,
      duplicates: duplicate === true ? 1 : 0,
      discarded: counted !== undefined || expected.status === 401 ? 1 : 0,
    };
    await until('the ledger has the request', async () => {
      const now = await countsOf(source);
      expect({
        accepted: now.accepted - before.accepted,
        duplicates: now.duplicates - before.duplicates,
        discarded: (now.discarded[reason] ?? 0) - (before.discarded[reason] ?? 0),
      }).toEqual(differences);
    });
    if (stored === undefined) return;
    const { data } = await ask(`events/${stored['messageId']}`);
    expect(data[0]!.event).toMatchObject(stored);
  });

  it('are taken by the key in the path, with the signature of the first call', async () => {
    const first = JSON.stringify({ type: 'page', userId: 'u', messageId: 'by-path' });
    const signature = createHmac('sha1', 'not-a-real-secret-1').update(first).digest('hex');
    const answer = await forward(`[${first}]`, {
      ...{ key: 'wk', path: '/v1/forwarded/wk_signed', headers: { 'x-signature': signature } },
    });
    expect(answer.status).toBe(200);
    expect((await countsOf('signed')).accepted).toBe(1);
  });

  it('are told 503 where others are told 429, and may come from one address as often as they want', async () => {
    const list = JSON.stringify(
      Array.from({ length: 50 }, (_, nth) => ({ type: 'page', userId: 'u', messageId: `many-${nth}` })),
    );
    expect((await forward(list)).status).toBe(200);
    const statuses: number[] = [];
    for (let nth = 0; nth < 3; nth++) statuses.push((await forward(list, { key: 'wk_slow' })).status);
    expect(statuses).toContain(503);
    expect(statuses).not.toContain(429);
    const last = await forward(list, { key: 'wk_slow' });
    expect(last.status).toBe(503);
    expect(Number(last.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  it('may be 32 MB in a list, several at once, without more memory than bodies may take', async () => {
    const padding = 'x'.repeat(8_100);
    const listOf = (name: string) =>
      JSON.stringify(
        Array.from({ length: 4_000 }, (_, nth) => ({
          ...{ type: 'track', event: 'Large', userId: 'u', messageId: `${name}-${nth}` },
          properties: { padding },
        })),
      );
    expect(listOf('l0').length).toBeLessThanOrEqual(32 * 2 ** 20);
    const send = async (name: string): Promise<void> => {
      const body = gzipSync(listOf(name), { level: 1 });
      for (;;) {
        const answer = await forward(body, { headers: { 'content-encoding': 'gzip' } });
        await answer.text();
        if (answer.status === 200) return;
        expect(answer.status).toBe(503);
      }
    };
    const before = (await countsOf('website')).accepted;
    await Promise.all(Array.from({ length: 6 }, (_, nth) => send(`l${nth}`)));
    expect((await countsOf('website')).accepted - before).toBe(24_000);
    const memory = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${program.pid}/status`, 'utf8'))![1];
    expect(Number(memory) / 1024).toBeLessThan(1_000);
    const tooMany = await forward(`[${'{},'.repeat(4_000)}{}]`);
    expect([tooMany.status, await tooMany.json()]).toMatchObject([400, { code: 'batch_too_large' }]);
    const tooLarge = await forward(gzipSync(`[${' '.repeat(32 * 2 ** 20)}]`));
    expect([tooLarge.status, await tooLarge.json()]).toMatchObject([400, { code: 'batch_too_large' }]);
  });
});
