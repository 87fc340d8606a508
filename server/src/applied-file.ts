import type { Config } from './config.ts';
import { changesOf } from './control/changes.ts';
import type { Clock } from './ports/clock.ts';
import type { Logger } from './ports/logger.ts';
import type { Settings, SettingsSnapshot } from './ports/settings.ts';

/**
 * Every start applies the file: what it names is overwritten, what it does not name stays. Whoever changed one of its
 * records meanwhile is told, because the change is lost. contract.md section 3.
 */
export async function applyFile(
  config: Config,
  settings: Settings,
  { logger, clock }: { readonly logger: Logger; readonly clock: Clock },
): Promise<SettingsSnapshot> {
  const now = await settings.load();
  const changes = changesOf(config, now, { by: 'file', clock });
  for (const { kind, name, action } of changes.audit ?? []) {
    if (action === 'created') continue;
    const [last] = (await settings.audit({ kind, name }, 1)).entries;
    if (last !== undefined && last.by !== 'file')
      logger.warn({ kind, name, by: last.by, at: new Date(last.at).toISOString() }, 'settings.overwritten');
  }
  return await settings.apply(changes);
}
