import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import { send, track } from '../support/calls.ts';
import { makePlace, type Place, type Program, startProgram } from '../support/program.ts';
import { until } from '../support/until.ts';

const TOKEN = 'admin-token-of-the-tests';

/** No receiver listens at the endpoint, so deliveries wait. */
const SERVER = `
admin: { token: ${TOKEN} }
egress: { allow: [127.0.0.0/8] }
sources: [{ name: site, writeKeys: [wk] }]
destinations:
  - { name: crm, type: webhooks, sources: [], settings: { endpoints: [{ url: "http://127.0.0.1:9/hook" }] } }
`;

const FILE = `
audiences:
  - name: Repeat Buyers
    definition: |
      event('Order Completed')
        .where(property('total') >= 20)
        .count() >= 2
    destinations: [crm]
  - { name: Loyal, definition: "audience('Repeat Buyers') and computed('Total Spent') > 50" }
traits:
  - { name: Total Spent, definition: "event('Order Completed').sum(property('total'))", destinations: [crm] }
`;

let place: Place;
let program: Program;

beforeAll(async () => {
  place = makePlace(SERVER);
  program = await startProgram({
    args: ['start', '--config', place.config, '--data', place.data, '--port', '0', '--host', '127.0.0.1'],
  });
  for (const [nth, total] of [30, 30, 10].entries()) {
    const order = (userId: string, of: number) => ({
      ...track(`${userId}-${nth}`),
      ...{ userId, event: 'Order Completed', properties: { total: of } },
    });
    await send(program.url, '/v1/track', order('u1', total));
    await send(program.url, '/v1/track', order('u2', total / 3));
  }
  // Profiles follow the log.
  const definition = "event('Order Completed').count() = 3";
  await until('both users are in a preview', async () => {
    const { answer } = await ask('POST', 'audiences/preview', { definition });
    return answer.members >= 2;
  });
});

afterAll(async () => {
  await program.stop();
  place.remove();
});

const run = (...args: string[]) => runVerb([...args, '--url', program.url, '--token', TOKEN]);

async function ask(method: string, path: string, body?: object, headers = {}) {
  const response = await fetch(`${program.url}/api/v1/${path}`, {
    method,
    headers: { authorization: `Bearer ${TOKEN}`, ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    tag: response.headers.get('etag'),
    answer: text === '' ? null : JSON.parse(text),
  };
}

function fileOf(name: string, text: string): string {
  const path = join(place.folder, name);
  writeFileSync(path, text);
  return path;
}

it('a plan of a file tells how many users each definition would have', async () => {
  const { out, code } = await run('plan', '-f', fileOf('a.yaml', FILE));
  expect(code).toBe(0);
  expect(out).toContain('+ audience Repeat Buyers');
  expect(out).toContain('audience Repeat Buyers would have 1 user.');
  expect(out).toContain('trait Total Spent would have 2 users.');
  expect(out).not.toContain('source audiences');
});

it('definitions of a file are computed, shown, and exported as they were written', async () => {
  const file = fileOf('a.yaml', FILE);
  expect((await run('apply', '-f', file, '--yes')).out).toContain('Done: 3 created');
  expect((await run('plan', '-f', file)).out).toContain('Nothing to change');
  await until('all audiences are live', async () => {
    const { answer } = await ask('GET', 'audiences');
    return answer.data.every(({ state }: { state: string }) => state === 'live') as boolean;
  });
  expect((await ask('GET', 'audiences/Repeat%20Buyers')).answer).toMatchObject({
    key: 'repeat_buyers',
    definition: "event('Order Completed')\n  .where(property('total') >= 20)\n  .count() >= 2",
    json: { op: '>=', to: 2, value: { op: 'event', name: 'Order Completed' } },
    destinations: ['crm'],
    members: 1,
  });
  const { answer: members } = await ask('GET', 'audiences/Loyal/members');
  expect(members.data).toEqual([{ userId: 'u1', since: expect.any(String), value: true }]);
  expect((await run('audience', 'list')).out).toMatch(/Repeat Buyers +live +1 +crm/);
  expect((await run('trait', 'members', 'Total Spent')).out).toMatch(/u1 .* 70\n/);
  const { answer: sources } = await ask('GET', 'sources/audiences');
  expect(sources).toMatchObject({ name: 'audiences', writeKeys: [], system: true });

  const text = (await run('export')).out;
  const exported = fileOf('b.yaml', text);
  expect((await run('plan', '-f', exported, '--prune')).out).toContain('Nothing to change');
  const without = fileOf('c.yaml', text.replace(/ {2}- name: Loyal\n(?: {4}.*\n)*/, ''));
  expect((await run('plan', '-f', without, '--prune')).out).toContain(
    'audience Loyal has 1 user: destinations are told nothing, and go on knowing them as members.',
  );
});

it('only another definition is a change, not another way to write it', async () => {
  const before = await ask('GET', 'audiences/Loyal');
  const same = "computed('Total Spent')>50";
  await ask('PATCH', 'audiences/Loyal', { definition: `audience('Repeat Buyers')\n and ${same}` });
  expect(await ask('GET', 'audiences/Loyal')).toEqual(before);
  const stale = await ask('PATCH', 'audiences/Loyal', { enabled: false }, { 'if-match': '"older"' });
  expect(stale.status).toBe(412);
  const changed = await ask('PATCH', 'audiences/Loyal', { enabled: false }, { 'if-match': before.tag });
  expect(changed.answer).toMatchObject({ enabled: false, key: 'loyal' });
  expect(changed.tag).not.toBe(before.tag);
  const sent = await ask('PATCH', 'audiences/Loyal', { ...before.answer, enabled: true });
  expect(sent).toMatchObject({ status: 200, answer: { enabled: true } });
});

it('a preview compares a definition with the one it would replace', async () => {
  const preview = await ask('POST', 'audiences/preview', {
    name: 'Repeat Buyers',
    definition: "event('Order Completed').within(3650 days).count() >= 1",
  });
  expect(preview).toMatchObject({ status: 200, answer: { members: 2, enters: 1, leaves: 0 } });
  expect(preview.answer.warnings).toEqual([
    { path: 'body.definition', message: expect.stringContaining('longer time than events are kept') },
  ]);
  const { out } = await run(
    'audience',
    'preview',
    '--definition',
    "event('Order Completed')",
    '--name',
    'Loyal',
  );
  expect(out).toContain('2 users would be members. Compared with Loyal, 1 enter and 0 leave.');
});

it('a preview names what never occurred, and what may be meant', async () => {
  const definition = "event('Order Complete') or page('') or trait('no \u001b[31m') = 1";
  const { status, answer } = await ask('POST', 'audiences/preview', { definition });
  const messages = [
    "names what never occurred: no stored event is called 'Order Complete' (did you mean 'Order Completed'?)",
    'names what never occurred: no stored page has no name',
    "names a trait that nobody has: no profile has the trait 'no \\u001b[31m'",
  ];
  expect([status, answer.warnings]).toEqual([
    200,
    messages.map((message) => ({ path: 'body.definition', message })),
  ]);
  const { err } = await run('audience', 'preview', '--definition', "event('Order Complete')");
  expect(err).toBe(`millrace: warning: it ${messages[0]}.\n`);
});

it('a preview tells of text where numbers are wanted, and takes any text for the name of an event', async () => {
  for (const [nth, total] of [5, '7'].entries())
    await send(program.url, '/v1/track', {
      ...{ userId: `r${nth}`, messageId: `refund-${nth}`, event: 'Re\u0000fund', properties: { total } },
    });
  const definition = "event('Re\u0000fund').sum(property('total')) > 1";
  const { status, answer } = await ask('POST', 'audiences/preview', { definition });
  expect([status, answer]).toMatchObject([200, { members: 1, sample: ['r0'], complete: true }]);
  expect(answer).not.toHaveProperty('eventsBehind');
  expect(answer.warnings).toEqual([
    {
      path: 'body.definition',
      message: 'reckons with the property "total", and 1 of 2 values are text: they are left out',
    },
  ]);
});

it('a mistake has its line and column over HTTP, on the command line and in a file', async () => {
  const definition = "group('g') and\n trait('x') wat 5";
  const { status, answer } = await ask('POST', 'audiences', { name: 'a', definition });
  const message = "expected a comparison behind trait('x'), such as = 'pro' or exists, found wat";
  expect([status, answer.errors]).toEqual([422, [{ path: 'body.definition', message, line: 2, column: 13 }]]);
  const shown = await run('audience', 'preview', '--definition', definition);
  expect(shown.code).toBe(2);
  expect(shown.err).toContain(`millrace: 2:13: ${message}\n   trait('x') wat 5\n              ^\n`);
  const file = fileOf('c.yaml', 'audiences:\n  - name: a\n    definition: "audience(\'Loyl\')"\n');
  expect((await run('plan', '-f', file)).err).toContain(
    'c.yaml:3:18  audiences[0].definition  names the audience "Loyl", which does not exist; did you mean "Loyal"?',
  );
});

it('what others mention is not removed, and the source of audiences not at all', async () => {
  const { status, answer } = await ask('DELETE', 'traits/Total%20Spent');
  expect([status, answer.code]).toEqual([409, 'still_mentioned']);
  expect(answer.errors).toEqual([{ path: 'audiences "Loyal"', message: 'mentions it in its definition' }]);
  expect((await ask('DELETE', 'sources/audiences')).answer.code).toBe('system_record');
});

it('a removal says what becomes of the members before it is done', async () => {
  expect((await ask('DELETE', 'audiences/Repeat%20Buyers?dryRun=true')).answer.code).toBe('still_mentioned');
  expect((await ask('DELETE', 'audiences/Loyal?dryRun=true')).answer).toMatchObject({ destinations: [] });
  expect((await ask('DELETE', 'audiences/Loyal')).status).toBe(204);
  const dryRun = await ask('DELETE', 'audiences/Repeat%20Buyers?dryRun=true');
  expect(dryRun).toMatchObject({ status: 200, tag: null });
  expect(dryRun.answer).toEqual({
    members: 1,
    destinations: ['crm'],
    message: expect.stringMatching(
      /^its destinations are told nothing, and go on knowing 1 user as members: /,
    ),
  });
  expect(
    (await ask('DELETE', 'audiences/Repeat%20Buyers?dryRun=true', undefined, { 'if-match': '"older"' }))
      .status,
  ).toBe(412);
  const audits = async () => (await ask('GET', 'audit')).answer.data.length;
  const before = await audits();
  expect((await ask('GET', 'audiences/Repeat%20Buyers')).status).toBe(200);
  expect((await ask('DELETE', 'audiences/Repeat%20Buyers')).status).toBe(204);
  expect((await ask('DELETE', 'traits/Total%20Spent?dryRun=true')).answer).toMatchObject({ members: 2 });
  expect((await ask('DELETE', 'traits/Total%20Spent')).status).toBe(204);
  expect(await audits()).toBe(before + 2);
  expect((await ask('GET', 'traits')).answer.data).toEqual([]);
});
