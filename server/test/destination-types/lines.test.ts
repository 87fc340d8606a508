import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { destinationTypeConformance } from '../conformance/destination-type.ts';
import { lines } from './lines/destination.ts';

let folder = '/nowhere';
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };
const TOKEN = 'the-token-of-lines-1';

destinationTypeConformance('lines', {
  type: lines,
  settings: () => ({ path: join(folder, 'events.jsonl'), token: TOKEN }),
  failing: () => ({ path: join(folder, 'no', 'such', 'folder'), token: TOKEN }),
  dropped: { answer: 'drop' },
  open: async () => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-lines-'));
    return lines.open!({
      http: { send() {}, stop: async () => {} },
      clock: systemClock,
      logger: SILENT,
      sourceOf: () => undefined,
    });
  },
  close: async () => rmSync(folder, { recursive: true, force: true }),
});
