import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { send, track } from '../../server/test/support/calls.ts';
import {
  makePlace,
  oneDestination,
  type Place,
  type Program,
  startServer,
} from '../../server/test/support/program.ts';
import { startReceiver, type TestReceiver } from '../../server/test/support/receiver.ts';
import { runVerb } from './program.ts';

let receiver: TestReceiver;
let place: Place;
let program: Program;

beforeAll(async () => {
  receiver = await startReceiver();
  place = makePlace(oneDestination([receiver.url]));
  program = await startServer(place);
});
afterAll(async () => {
  await program.stop();
  await receiver.stop();
  place.remove();
});

const run = (...args: string[]) => runVerb(args, { MILLRACE_URL: program.url, MILLRACE_DATA: place.data });

it('deletes users of the command line and of a file, waits, and shows who confirmed it', async () => {
  for (const userId of ['u1', 'u2', 'u3'])
    await send(program.url, '/v1/track', track(`m-${userId}`, { userId }));
  const file = join(place.folder, 'ids.txt');
  writeFileSync(file, 'u2\r\n\nu1\nnobody');
  const { code, out, err } = await run('delete-user', 'u1', '--file', file, '--wait');
  expect([code, err]).toEqual([0, '']);
  const lines = out.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME').replace(/:\d+\/?:/, ':PORT:');
  expect(lines.split('\n')).toEqual([
    expect.stringMatching(/^\S+ {2}DELETE_ONLY of 3 users: FINISHED$/),
    '  asked for: TIME by admin',
    '  names nobody: 1 of 3 ids',
    '  ended: TIME',
    '  erased: 2 events, 0 deliveries, 0 dead letters, 0 profiles',
    '  gone from the files: TIME',
    '  website → crm → http://127.0.0.1:PORT: FINISHED, 2 of 2 confirmed, the last at TIME',
    '',
  ]);
  const [id = ''] = out.split(' ');
  const again = await run('regulation', id, '--json');
  expect(JSON.parse(again.out)).toMatchObject({ id, overallStatus: 'FINISHED', erased: { events: 2 } });
});

it('suppresses users and ends it', async () => {
  expect((await run('suppress', 'u3', '--wait')).out).toMatch(/SUPPRESS_ONLY of 1 user: FINISHED/);
  expect((await run('unsuppress', 'u3')).out).toMatch(/UNSUPPRESS of 1 user: FINISHED/);
});

it('takes ids as they are, and asks where they may be no ids', async () => {
  for (const userId of ['twin', ' twin ', 'a,b', 'half\u0000'])
    await send(program.url, '/v1/track', track(`m-${userId}`, { userId }));
  const file = join(place.folder, 'twins');
  writeFileSync(file, ' twin \na,b');
  expect((await run('delete-user', '--file', file, '--wait')).out).toContain('erased: 2 events');
  expect((await run('delete-user', '--json-ids', '"half\\u0000"', '--wait')).out).toContain(
    'erased: 1 event',
  );
  for (const doubtful of [' twin', '"twin"', 'twin,1'])
    expect(await run('delete-user', doubtful)).toMatchObject({
      code: 2,
      err: expect.stringContaining('--yes'),
    });
  expect((await run('suppress', ' nobody', '--yes')).out).toContain('names nobody: 1 of 1 id');
  writeFileSync(file, Buffer.from('M\xfcller', 'latin1'));
  expect(await run('delete-user', '--file', file)).toMatchObject({
    code: 2,
    err: expect.stringContaining('is not UTF-8'),
  });
  expect(await run('delete-user', '--json-ids', 'twin')).toMatchObject({ code: 2 });
  expect((await run('delete-user', 'twin', '--wait')).out).toContain('erased: 1 event');
});

it('says what is wrong', async () => {
  expect(await run('delete-user')).toMatchObject({
    code: 2,
    err: expect.stringContaining('at least one userId'),
  });
  expect(await run('suppress', '--file', '/none')).toMatchObject({
    code: 2,
    err: expect.stringContaining('/none'),
  });
  expect(await run('regulation', 'none')).toMatchObject({
    code: 1,
    err: expect.stringContaining('is no regulation'),
  });
  const many = Array.from({ length: 5001 }, (_, n) => `u${n}`).join('\n');
  writeFileSync(join(place.folder, 'many'), many);
  const { code, err } = await run('suppress', '--file', join(place.folder, 'many'));
  expect([code, err]).toEqual([2, expect.stringContaining('5000')]);
});
