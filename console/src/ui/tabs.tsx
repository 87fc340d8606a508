import { Tabs as RadixTabs } from 'radix-ui';
import type { ReactNode } from 'react';
import './tabs.css';

interface TabsProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly tabs: readonly {
    readonly value: string;
    readonly label: ReactNode;
    readonly content: ReactNode;
  }[];
  /** At the right end of the bar. */
  readonly aside?: ReactNode;
}

/** Views of the same thing; keep `value` in the URL. */
export function Tabs({ label, value, onChange, tabs, aside }: TabsProps) {
  return (
    <RadixTabs.Root value={value} onValueChange={onChange}>
      <div className="tabs-bar">
        <RadixTabs.List className="tabs" aria-label={label}>
          {tabs.map((tab) => (
            <RadixTabs.Trigger key={tab.value} value={tab.value}>
              {tab.label}
            </RadixTabs.Trigger>
          ))}
        </RadixTabs.List>
        {aside}
      </div>
      {tabs.map((tab) => (
        <RadixTabs.Content key={tab.value} value={tab.value} className="tab-body">
          {tab.content}
        </RadixTabs.Content>
      ))}
    </RadixTabs.Root>
  );
}
