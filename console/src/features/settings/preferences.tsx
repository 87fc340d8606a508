import { Segmented } from '../../ui/controls.tsx';
import { Section } from '../../ui/page.tsx';
import { setPreferences, usePreferences } from '../../ui/preferences.ts';

/** Time zone and theme of this browser. */
export function Preferences() {
  const { theme, zone } = usePreferences();
  return (
    <Section title="This browser">
      <div className="choices">
        <span className="soft">Times are shown in</span>
        <Segmented
          label="Time zone"
          value={zone}
          options={[
            { value: 'local', label: `local time (${Intl.DateTimeFormat().resolvedOptions().timeZone})` },
            { value: 'utc', label: 'UTC' },
          ]}
          onChange={(value) => setPreferences({ zone: value })}
        />
        <span className="soft">Colours</span>
        <Segmented
          label="Theme"
          value={theme}
          options={[
            { value: 'system', label: 'as the system' },
            { value: 'light', label: 'light' },
            { value: 'dark', label: 'dark' },
          ]}
          onChange={(value) => setPreferences({ theme: value })}
        />
      </div>
    </Section>
  );
}
