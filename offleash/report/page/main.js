startTheme();
startTable();
startProblem();
startCharts();
