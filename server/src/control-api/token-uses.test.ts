import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TokenUseFile } from '../adapters/files/token-use-file.ts';

import { TokenUseRecorder } from './token-uses.ts';

let folder: string;
let tokens: { name: string }[];
let warnings: string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-token-uses-'));
  tokens = [{ name: 'ci' }, { name: 'jonas' }];
  warnings = [];
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function started(store = new TokenUseFile(folder)): Promise<TokenUseRecorder> {
  const nothing = () => {};
  const logger = {
    debug: nothing,
    info: nothing,
    error: nothing,
    warn: (_: object, event: string) => void warnings.push(event),
  };
  const recorder = new TokenUseRecorder({
    store,
    tokens: () => tokens,
    clock: { now: () => 1_000_000 },
    logger,
  });
  await recorder.start();
  return recorder;
}

describe('the last use of a token', () => {
  it('is known over a restart', async () => {
    const before = await started();
    before.note('ci');
    await before.stop();
    const after = await started();
    expect(after.lastUse('ci', 0)).toBe(1_000_000);
    expect(after.lastUse('jonas', 0)).toBeUndefined();
    await after.stop();
  });

  it('is not that of an older token of the same name, and goes with the token', async () => {
    const before = await started();
    before.note('ci');
    expect(before.lastUse('ci', 1_000_001)).toBeUndefined();
    tokens = [];
    await before.stop();
    const after = await started();
    expect(after.lastUse('ci', 0)).toBeUndefined();
    await after.stop();
  });

  it.each(['', '{"ci":', '[1]', '{"ci":"yesterday"}', 'null'])(
    'begins anew with a damaged file: %j',
    async (text) => {
      writeFileSync(join(folder, 'token-uses.json'), text);
      const recorder = await started();
      expect(recorder.lastUse('ci', 0)).toBeUndefined();
      recorder.note('ci');
      await recorder.stop();
      expect((await started()).lastUse('ci', 0)).toBe(1_000_000);
    },
  );

  it('holds nothing up where it cannot be saved, and is tried again', async () => {
    const recorder = await started(new TokenUseFile(join(folder, 'gone')));
    recorder.note('ci');
    await recorder.stop();
    expect(warnings).toEqual(['token_uses.not_saved']);
    expect(recorder.lastUse('ci', 0)).toBe(1_000_000);
  });
});
