import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import {
  adminTokenOf,
  failuresOf,
  makePlace,
  type Place,
  type Program,
  ROOT,
  runProgram,
  startArguments,
  startServer,
} from '../support/program.ts';
import { writeBundle } from '../support/program-bundle.ts';
import { until } from '../support/until.ts';

const EVENTS = 300;

interface Line {
  readonly token?: string;
  /** How many events were sent together. */
  readonly batch: number;
  readonly messageId: string;
  readonly replay?: string;
}

/**
 * A program with the type of `server/test/destination-types/lines/`, which is in its list and nowhere else.
 */
describe('a program with one more type of destination', () => {
  let bundle: string;
  let millrace: string;
  let place: Place;
  let program: Program;
  let file: string;

  const api = new ControlApi(() => ({ url: program.url, token: adminTokenOf(place) }));
  const written = (): Line[] =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Line);
  const verb = (...args: string[]) =>
    runProgram({ args: [...args, '--url', program.url, '--data', place.data], millrace });

  beforeAll(async () => {
    bundle = mkdtempSync(join(tmpdir(), 'millrace-types-'));
    await writeBundle(bundle, join(ROOT, 'server/test/destination-types/list.ts'));
    millrace = join(bundle, 'cli/bin/millrace.js');
    file = join(bundle, 'events.jsonl');
    place = makePlace(`
sources:
  - { name: website, writeKeys: [wk] }
destinations:
  - name: box
    type: lines
    sources: [website]
    settings: { path: "${file}", token: t0ken-of-the-box, filter: { types: [track] } }
`);
    program = await startServer(place, { millrace });
    const calls = Array.from({ length: EVENTS }, (_, n) => track(`m${n}`));
    const special = [
      track('refused', { properties: { answer: 'refuse' } }),
      track('later', { properties: { answer: 'once' } }),
      track('dropped', { properties: { answer: 'drop' } }),
      track('elsewhere', { integrations: { Lines: false } }),
      track('filtered', { type: 'page', name: 'Home' }),
    ];
    for (let from = 0; from < EVENTS; from += 100)
      expect((await send(program.url, '/v1/batch', { batch: calls.slice(from, from + 100) })).status).toBe(
        200,
      );
    expect((await send(program.url, '/v1/batch', { batch: special })).status).toBe(200);
    await until('everything is written', async () => written().length >= EVENTS + 1);
  });

  afterAll(async () => {
    await program.kill();
    place.remove();
    rmSync(bundle, { recursive: true, force: true });
  });

  it('sends it many events at once, each once, and believes what it says of each', async () => {
    const lines = written();
    expect(lines.map(({ messageId }) => messageId).sort()).toEqual(
      [...Array.from({ length: EVENTS }, (_, n) => `m${n}`), 'later'].sort(),
    );
    expect(Math.max(...lines.map(({ batch }) => batch))).toBeLessThanOrEqual(100);
    expect(Math.max(...lines.map(({ batch }) => batch))).toBeGreaterThan(1);
    expect(new Set(lines.map(({ token }) => token))).toEqual(new Set(['t0ken-of-the-box']));
    const status = await api.until<{ pending: number; dead: number; delivered: number }>(
      'destinations/box/status',
      ({ pending }) => pending === 0,
    );
    expect(status).toMatchObject({ pending: 0, dead: 1, dropped: 1, delivered: EVENTS + 1 });
  });

  it('says everywhere what it drops, and takes it once more on request', async () => {
    expect((await verb('trace', 'dropped')).stdout).toMatch(/box\s+dropped: not_applicable, no line for it/);
    const listed = await verb('deliveries', '--state', 'dropped', '--json');
    expect(JSON.parse(listed.stdout)).toMatchObject({
      ...{ state: 'dropped', reason: 'not_applicable', note: 'no line for it', messageId: 'dropped' },
      ...{ droppedAt: expect.stringMatching(/^2/), attempts: [] },
    });
    const dead = await verb('deliveries', '--state', 'dead', '--json');
    expect(JSON.parse(dead.stdout)).toMatchObject({ messageId: 'refused' });
    const ledger = await api.read<{ balanced: boolean; destinations: { box: object } }>('ledger');
    expect(ledger.balanced).toBe(true);
    expect(ledger.destinations.box).toMatchObject({
      ...{ owed: EVENTS + 3, delivered: EVENTS + 1, dropped: { not_applicable: 1 }, balance: 0 },
    });
    expect((await verb('status')).stdout).toMatch(
      /dead {2}dropped {2}erased[\s\S]*dropped: not_applicable 1/,
    );
    const headers = { Authorization: `Bearer ${adminTokenOf(place)}` };
    const metrics = await fetch(`${program.url}/metrics`, { headers });
    expect(await metrics.text()).toContain(
      'millrace_dropped_deliveries{destination="box",reason="not_applicable"} 1',
    );
    const again = await verb('redeliver', 'box', '--state', 'dropped', '--reason', 'not_applicable');
    expect(again.stdout).toContain('1 delivery of box is owed once more');
    await api.until<{ dropped: number; pending: number }>(
      'destinations/box/status',
      ({ dropped, pending }) => dropped === 1 && pending === 0,
    );
    expect((await verb('redeliver', 'box', '--message-id', 'dropped')).stdout).toContain('1 delivery');
    await api.until<{ dropped: number; pending: number }>(
      'destinations/box/status',
      ({ dropped, pending }) => dropped === 1 && pending === 0,
    );
  });

  it('traces what became of each event', async () => {
    const refused = await verb('trace', 'refused');
    expect(refused.stdout).toMatch(/box.*dead/s);
    expect(refused.stdout).toContain('not_wanted');
    const later = await verb('trace', 'later');
    expect(later.stdout).toMatch(/not_yet[\s\S]*accepted/);
    expect((await verb('trace', 'elsewhere')).stdout).toContain('integrations');
    expect((await verb('trace', 'filtered')).stdout).toContain('filtered');
  });

  it('shows its settings without the secret, takes them back, and describes them for forms', async () => {
    const shown = await api.read<{ settings: object }>('destinations/box');
    expect(shown.settings).toEqual({
      path: file,
      token: { set: true, hint: '-box' },
      success: 'any',
      filter: { types: ['track'] },
    });
    expect((await api.ask('PATCH', 'destinations/box', shown)).status).toBe(200);
    expect((await api.ask('PATCH', 'destinations/box', { settings: { path: 'nowhere' } })).status).toBe(422);
    const taken = { name: 'Lines', type: 'lines', sources: [], settings: { path: file } };
    expect(JSON.stringify((await api.ask<object>('POST', 'destinations', taken)).answer)).toContain(
      'must not be Webhooks, Lines, All or all',
    );
    const unknown = await api.ask<object>('POST', 'destinations', { ...taken, name: 'x', type: 'ftp' });
    expect(JSON.stringify(unknown.answer)).toContain('must be webhooks, segment or lines');
    const described = JSON.stringify(await (await fetch(`${program.url}/api/openapi.json`)).json());
    expect(described).toContain('The file that every event is added to as a line.');
    const exported = await verb('export');
    expect(exported.stdout).toMatch(/type: lines[\s\S]*token: \$\{BOX_TOKEN\}/);
    expect(exported.stdout).not.toContain('t0ken-of-the-box');
  });

  it('sends it a test and a replay', async () => {
    const before = written().length;
    expect((await verb('test', 'box')).code).toBe(0);
    expect(written()).toHaveLength(before + 1);
    const replay = await verb(
      'replay',
      'box',
      '--from',
      '2020-01-01T00:00:00Z',
      '--to',
      '2100-01-01T00:00:00Z',
    );
    expect(replay.code, replay.stderr).toBe(0);
    await until(
      'the replay is written',
      async () => written().filter((line) => line.replay !== undefined).length >= EVENTS + 1,
    );
    const again = written().filter((line) => line.replay !== undefined);
    expect(new Set(again.map(({ messageId }) => messageId)).size).toBe(EVENTS + 1);
  });

  it('keeps what it is owed when it is killed, and is not opened by a version without the type', async () => {
    await api.ask('POST', 'destinations/box/pause');
    expect((await send(program.url, '/v1/track', track('kept'))).status).toBe(200);
    await program.kill();
    const plain = makePlace('sources: [{ name: website, writeKeys: [wk] }]\n');
    try {
      const refused = await runProgram({ args: startArguments({ config: plain.config, data: place.data }) });
      expect(refused.code).not.toBe(0);
      expect(failuresOf(refused.stderr).join()).toContain('the destination "box" is of the type "lines"');
    } finally {
      plain.remove();
    }
    program = await startServer(place, { millrace });
    await api.ask('POST', 'destinations/box/resume');
    await until('what was kept is written', async () =>
      written().some(({ messageId }) => messageId === 'kept'),
    );
  });
});
