import { describe, expect, it } from 'vitest';
import { checkSqliteVersion } from './database.ts';

describe('the SQLite that Node carries', () => {
  it.each(['3.51.3', '3.53.4', '3.100.0', '4.0.0'])('%s will do', (version) => {
    expect(() => checkSqliteVersion(version)).not.toThrow();
  });

  it.each(['3.51.2', '3.50.7', '3.9.3'])('%s may lose a commit and is refused', (version) => {
    expect(() => checkSqliteVersion(version)).toThrow(/SQLite 3\.\d+\.\d, which may lose.*use Node 24\.15/);
  });
});
