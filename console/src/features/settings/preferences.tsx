import { Segmented } from '../../ui/controls.tsx';
import { Section } from '../../ui/page.tsx';
import { setPreferences, usePreferences } from '../../ui/preferences.ts';

/** Time zone and theme of this browser. */
export function Preferences() {
  const { theme, zone } = usePreferences();
  return (
    <Section title="This browser">
      <div className="stack-s">
        <div className="rowx">
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
        </div>
        <div className="rowx">
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
      </div>
    </Section>
  );
}
